"""What counts as progress of a script."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from gpuproof.agent.stall.progress import Progress, stall_text
from gpuproof.gpu.intensity import Counters
from gpuproof.gpu.nvml import GpuReading
from gpuproof.gpu.processes import ProcessReading, TreeReading
from gpuproof.gpu.telemetry import Sample
from gpuproof.util.atomic import write_json
from support.gpu_timelines import SPINNING

GIB = 1 << 30


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Progress:
    return Progress(clock)


def sample(
    utilization: int | None = 0,
    memory: int | None = GIB,
    processes: tuple[tuple[int, int | None], ...] | None = None,
    tree: frozenset[int] | None = None,
) -> Sample:
    gpu = GpuReading(index=0, utilization=utilization, memory_used=memory, processes=processes)
    pids = (
        None
        if tree is None
        else TreeReading(tuple(ProcessReading(pid, "python", 0.0) for pid in tree), 0.0, 0, None, None)
    )
    return Sample(1.0, gpus=(gpu,), tree=pids)


def test_a_gpu_that_spins_makes_no_progress_if_its_counters_say_so(progress: Progress, clock: Clock) -> None:
    def counted(counters: Counters | None) -> Sample:
        (gpu,) = sample(utilization=100).gpus
        return Sample(1.0, gpus=(replace(gpu, counters=counters),))

    progress.on_sample(sample())
    clock.now = 9.0
    progress.on_sample(counted(SPINNING))
    assert progress.idle() == 9.0
    # A single instruction that computes is progress; and so is what is not counted.
    for counters in (replace(SPINNING, fp32_active=1e-7), replace(SPINNING, tensor_active=None), None):
        clock.now += 9.0
        progress.on_sample(counted(counters))
        assert progress.idle() == 0.0


def test_output_is_progress(progress: Progress, clock: Clock) -> None:
    clock.now = 50.0
    assert progress.idle() == 50.0
    progress.note()
    assert progress.idle() == 0.0


@pytest.mark.parametrize(
    ("after", "idle"),
    [
        (sample(utilization=1), 0.0),
        (sample(memory=2 * GIB), 0.0),
        (sample(), 9.0),
        (sample(utilization=None), 9.0),
        (Sample(1.0), 9.0),
    ],
)
def test_work_of_a_gpu_and_a_change_of_its_memory_are_progress(
    progress: Progress, clock: Clock, after: Sample, idle: float
) -> None:
    clock.now = 1.0
    progress.on_sample(sample())
    clock.now = 9.0
    progress.on_sample(after)
    assert progress.idle() == idle


@pytest.mark.parametrize(
    ("pids", "tree", "idle"),
    [
        # The job's own process, another one that is visible here, one of the host's that a container does not see.
        ((4242,), frozenset({4242}), 0.0),
        ((os.getpid(),), frozenset({4242}), 9.0),
        ((2**22 + 1,), frozenset({4242}), 0.0),
        ((os.getpid(),), None, 0.0),
    ],
)
def test_work_of_another_job_is_not(
    progress: Progress, clock: Clock, pids: tuple[int, ...], tree: frozenset[int] | None, idle: float
) -> None:
    clock.now = 9.0
    progress.on_sample(sample(90, processes=tuple((pid, GIB) for pid in pids), tree=tree))
    assert progress.idle() == idle


def test_the_reason_names_the_setting() -> None:
    assert stall_text(1200) == "no progress on any GPU or in any log for 20 min (stall_timeout)"


def test_examples_that_the_script_counts_are_progress(clock: Clock, tmp_path: Path) -> None:
    counts = tmp_path / "throughput"
    progress = Progress(clock, counts)
    clock.now = 50.0
    progress.on_sample(sample())
    assert progress.idle() == 50.0
    counts.mkdir()
    write_json(counts / "1.json", {})
    progress.on_sample(sample())
    assert progress.idle() == 0.0
    os.utime(counts, ns=(0, 1))  # another time, however coarse the clock of the file system
    clock.now = 80.0
    progress.on_sample(sample())
    assert progress.idle() == 0.0
    clock.now = 90.0
    progress.on_sample(sample())
    assert progress.idle() == 10.0
