"""What GPUs wait for now, from the samples of the last half minute."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuproof.agent.verdict.recent import RecentActivity, Wait
from gpuproof.agent.verdict.steps import host_steps
from gpuproof.gpu.nvml import GpuInfo
from gpuproof.gpu.processes import CpuUse, ProcessReading, TreeReading
from gpuproof.gpu.telemetry import Sample
from support.gpu_timelines import JOB, SPINNING, STRANGER, TRAINING, Timeline, cpu, gpu
from support.step_documents import document

OURS: dict[str, Any] = {"mib": 8000, "pids": {JOB: 7900}}
TREE = TreeReading((ProcessReading(JOB, "python", 0.0),), 0.0, 0, 0, 0)


def recent(
    seconds: int,
    *gpus: Timeline,
    cpu_use: CpuUse | None = None,
    into: RecentActivity | None = None,
    begin: int = 0,
    **more: Any,
) -> RecentActivity:
    found = into or RecentActivity(cpu_count=8, has_peers=more.pop("has_peers", False))
    for number in range(begin, begin + seconds + 1):
        readings = tuple(timeline(index, number) for index, timeline in enumerate(gpus))
        found.add(Sample(float(number), 1.0 if number else 0.0, readings, TREE, cpu_use, **more))
    return found


def waits(found: RecentActivity, gpus: int = 1) -> dict[int, Wait]:
    infos = [GpuInfo(index, multiprocessors=80) for index in range(gpus)]
    return found.waits(infos)


def test_a_gpu_that_waits_while_one_core_is_busy_waits_for_that_core() -> None:
    (wait,) = waits(recent(10, gpu(20, **OURS), cpu_use=cpu(0.99))).values()
    assert wait == Wait("one-core", f"python (process {JOB}) ran at 99% of one core")


def test_a_gpu_that_waits_while_much_is_read_waits_for_the_disk() -> None:
    assert waits(recent(10, gpu(20, **OURS), cpu_use=cpu(0.2), read_rate=200e6))[0].kind == "disk"


def test_a_gpu_that_waits_while_nothing_happens_is_unexplained() -> None:
    assert waits(recent(10, gpu(20, **OURS), cpu_use=cpu(0.2)))[0].kind == "unexplained"


def test_a_gpu_that_works_waits_for_nothing() -> None:
    assert waits(recent(10, gpu(95, **OURS, counters=TRAINING), cpu_use=cpu(1.0))) == {}


def test_a_gpu_without_a_process_of_the_job_is_unused_and_one_that_is_gone_is_lost() -> None:
    others = {"mib": 4000, "pids": {STRANGER: 3900}}
    found = waits(recent(10, gpu(95, **OURS), gpu(95, **others), gpu(50, **OURS, lost_at=5)), gpus=3)
    assert {index: wait.kind for index, wait in found.items()} == {1: "unused", 2: "lost"}
    assert "GPU is lost" in found[2].text


def test_where_processes_cannot_be_seen_memory_shows_which_gpus_are_in_use() -> None:
    hidden = replace(gpu(20, mib=8000)(0, 1.0), processes=None)
    found = recent(10, lambda index, t: replace(hidden, index=index), gpu(0), cpu_use=cpu(0.99))
    assert {index: wait.kind for index, wait in waits(found, 2).items()} == {0: "one-core", 1: "unused"}


def test_only_the_last_half_minute_counts() -> None:
    found = recent(60, gpu(95, **OURS), cpu_use=cpu(1.0))
    assert waits(found) == {}
    recent(32, gpu(10, **OURS), cpu_use=cpu(0.99), into=found, begin=61)
    assert waits(found)[0].kind == "one-core"


def test_too_short_a_time_says_nothing() -> None:
    assert waits(recent(1, gpu(10, **OURS), cpu_use=cpu(0.99))) == {}


def test_a_spinning_gpu_of_a_job_with_several_hosts_waits_for_communication() -> None:
    (wait,) = waits(recent(20, gpu(100, **OURS, counters=SPINNING), has_peers=True)).values()
    assert wait.kind == "communication"


def test_a_spinning_gpu_of_one_host_is_named_by_its_activity() -> None:
    (wait,) = waits(recent(20, gpu(100, **OURS, counters=SPINNING))).values()
    assert wait.kind == "few-multiprocessors"


def steps(found: RecentActivity, *shares: dict[str, float]) -> None:
    """Add totals of steps: of each 100 steps of 25 s, these shares."""
    seconds: dict[str, float] = {}
    for number, share in enumerate(({}, *shares)):
        for name, value in share.items():
            seconds[name] = seconds.get(name, 0.0) + value * 25
        recorded = document(steps=100 * number or 1, step_s=0.25)
        total = recorded["seconds"]
        recorded["phases"] = dict(seconds) or {"forward": total}
        found.set_steps(25.0 * number, host_steps([recorded]))


def test_the_phase_of_the_steps_replaces_a_guess() -> None:
    found = recent(25, gpu(20, **OURS), cpu_use=cpu(0.99))
    steps(found, {"input": 0.7, "forward": 0.3})
    (wait,) = waits(found).values()
    assert wait.kind == "input"
    assert "% of the steps' time: python (process 4711) ran at 99% of one core" in wait.text


def test_only_recent_steps_count() -> None:
    found = recent(75, gpu(20, **OURS), cpu_use=cpu(0.99))
    steps(found, {"input": 0.9, "forward": 0.1}, {"copy": 0.5, "forward": 0.5}, {"copy": 0.5, "forward": 0.5})
    assert waits(found)[0].kind == "copy"


def test_a_busy_gpu_may_wait_for_communication_by_its_steps() -> None:
    found = recent(25, gpu(98, **OURS), cpu_use=cpu(1.0))
    steps(found, {"communication": 0.5, "forward": 0.5})
    assert waits(found)[0].kind == "communication"


def test_a_busy_gpu_does_not_wait_for_input() -> None:
    found = recent(25, gpu(98, **OURS), cpu_use=cpu(1.0))
    steps(found, {"input": 0.5, "forward": 0.5})
    assert waits(found) == {}
