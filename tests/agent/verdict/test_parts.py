"""A part of a job that follows another one: the driver's means of the first second may show the part before."""

from __future__ import annotations

import pytest

from gpuproof.agent.verdict import IDLE, USED, Expectation, judge
from support.gpu_timelines import JOB, cpu, gpu, watched

WORKED_BEFORE = gpu(90, mib=8000, pids={JOB: 7900}, since=-1, until=0.8, idle_mib=8000, idle_pids={JOB: 7900})
WORKS_ON = gpu(90, mib=8000, pids={JOB: 7900}, since=-1)
ONE_GPU = Expectation(1)


def test_work_of_the_part_before_is_not_work_of_this_part() -> None:
    assert judge(ONE_GPU, watched(5, WORKED_BEFORE, step=0.25, settles=True)).outcome == IDLE
    assert judge(ONE_GPU, watched(5, WORKED_BEFORE, step=0.25)).outcome == USED


def test_a_gpu_that_works_on_is_used() -> None:
    verdict = judge(ONE_GPU, watched(3, WORKS_ON, step=0.25, settles=True))
    assert verdict.outcome == USED
    assert verdict.gpus[0].busy_s == pytest.approx(2 * 0.9)


def test_a_gpu_that_was_idle_before_counts_from_the_beginning() -> None:
    telemetry = watched(3, gpu(90, mib=8000, pids={JOB: 7900}, since=0.25), step=0.25, settles=True)
    assert judge(ONE_GPU, telemetry).gpus[0].busy_s == pytest.approx(3 * 0.9)


def test_the_cpu_time_of_before_does_not_count() -> None:
    processes = judge(ONE_GPU, watched(4, WORKS_ON, begin=100, cpu=cpu(2.0))).processes
    assert processes is not None
    assert processes.cpu_seconds == 8.0
