"""The verdict from values by the minute: what it claims, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gpuproof.account.audit.judge import NOT_MEASURED, Judgement, judge
from gpuproof.account.audit.usage import HostUsage, Samples, host_usage
from gpuproof.agent.verdict import CPU_ONLY, IDLE, PARTLY_USED, UNKNOWN, USED


def host(
    gpu: Sequence[float],
    gpus: int | None = 1,
    *,
    memory: float | None = 30.0,
    name: str = "algo-1",
    minutes: float | None = None,
    period: float = 60.0,
    largest: float | None = None,
) -> HostUsage:
    times = tuple(number * period for number in range(len(gpu)))
    held = Samples() if memory is None else Samples(times, (memory,) * len(gpu))
    peaks = None if largest is None else Samples(times, (largest,) * len(gpu))
    seconds = len(gpu) * period if minutes is None else 60 * minutes
    return host_usage(name, gpus, period, seconds, Samples(times, tuple(gpu)), peaks, held)


def verdict(*hosts: HostUsage, seconds: float = 3600.0) -> Judgement:
    return judge(hosts, seconds)


def test_a_gpu_that_worked_is_used_and_wastes_nothing() -> None:
    found = verdict(host([85.0] * 30))
    assert (found.outcome, found.wasted_share) == (USED, 0)
    assert (found.mean, found.p90) == (85, 85)


def test_no_utilization_and_no_memory_is_cpu_only() -> None:
    found = verdict(host([0.0] * 30, memory=0.02))
    assert (found.outcome, found.wasted_share, found.is_certain) == (CPU_ONLY, 1, True)


def test_memory_without_work_is_idle() -> None:
    # 500 MiB of an H200 are 0.35 %.
    assert verdict(host([0.0] * 30, memory=0.35)).outcome == IDLE


def test_without_published_memory_a_gpu_without_work_is_idle() -> None:
    assert verdict(host([0.0] * 30, memory=None)).outcome == IDLE


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([1.0] * 600, USED),  # six minutes of work in ten hours
        ([0.5] * 30, IDLE),  # 9 s of work in half an hour
        ([0.0] * 29 + [95.0], USED),  # one minute of work
        ([1.5], USED),  # 0.9 s of work in a job of a minute
        ([0.5], IDLE),
    ],
)
def test_the_thresholds_are_those_of_a_run(values: list[float], outcome: str) -> None:
    assert verdict(host(values)).outcome == outcome


@pytest.mark.parametrize(
    ("values", "gpus", "outcome", "idle"),
    [
        ([790.0] * 30, 8, USED, 0),
        ([300.0] * 29 + [710.0], 8, USED, 0),
        ([395.0] * 30, 8, PARTLY_USED, 4),
        ([95.0] * 30, 4, PARTLY_USED, 3),
        ([101.5] * 30, 4, PARTLY_USED, 3),  # a rounded sum
        ([690.0] * 30, 8, UNKNOWN, 1),  # eight GPUs at 86 %, or seven at 99 %
        ([370.0] * 30, 8, UNKNOWN, 4),
        ([250.0, 120.0] * 15, 8, UNKNOWN, 5),
        ([50.0] * 30, 4, UNKNOWN, 3),
    ],
)
def test_a_sum_shows_how_many_gpus_worked_at_least(
    values: list[float], gpus: int, outcome: str, idle: int
) -> None:
    found = verdict(host(values, gpus))
    assert (found.outcome, found.idle, found.working) == (outcome, idle, gpus - idle)
    assert found.is_certain is (outcome == USED)


def test_only_a_probable_number_of_idle_gpus_is_called_so_and_only_it_wastes_money() -> None:
    probable, unclear = verdict(host([395.0] * 30, 8)), verdict(host([250.0, 120.0] * 15, 8))
    assert probable.wasted_share == 0.5
    assert "Probably only 4 of 8 GPUs" in probable.reason
    assert unclear.wasted_share == 0
    assert "Between 3 and 8 of 8 GPUs" in unclear.reason


def test_a_host_whose_gpus_did_nothing_is_certainly_idle() -> None:
    found = verdict(host([90.0] * 30), host([0.0] * 30, name="algo-2"))
    assert (found.outcome, found.idle, found.is_certain, found.wasted_share) == (PARTLY_USED, 1, True, 0.5)
    assert "algo-2 did nothing" in found.reason


def test_missing_values_of_an_idle_host_are_unknown_and_of_a_busy_one_do_not_matter() -> None:
    assert verdict(host([0.0] * 10, minutes=60)).outcome == UNKNOWN
    assert verdict(host([90.0] * 10, minutes=60)).outcome == USED
    assert verdict(host([0.0] * 58, minutes=60, memory=0.0)).outcome == CPU_ONLY


def test_a_host_without_values_is_no_idle_host() -> None:
    found = verdict(host([90.0] * 30), host([], name="algo-2"))
    assert (found.outcome, found.wasted_share) == (UNKNOWN, 0)
    assert verdict(host([0.0] * 30), host([], name="algo-2")).outcome == UNKNOWN


def test_nothing_is_measured_without_a_value() -> None:
    assert verdict(host([])).outcome == NOT_MEASURED
    assert verdict().outcome == NOT_MEASURED


def test_the_maximum_within_an_hour_shows_gpus_that_the_average_hides() -> None:
    found = verdict(host([95.0] * 10, 2, period=3600.0, largest=180.0), seconds=36_000)
    assert found.outcome == USED


def test_gpus_of_an_unknown_number_can_be_used_or_not() -> None:
    assert verdict(host([90.0] * 30, None)).outcome == USED
    assert verdict(host([0.0] * 30, None, memory=0.0)).outcome == CPU_ONLY
