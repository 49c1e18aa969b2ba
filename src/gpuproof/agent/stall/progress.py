"""When the script last made progress: output, work of a GPU, a change of GPU memory, or a report of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Callable

from gpuproof.agent.verdict.activity import only_spins
from gpuproof.gpu.nvml import GpuReading
from gpuproof.gpu.telemetry import Sample
from gpuproof.util.humanize import format_duration


def stall_text(seconds: float) -> str:
    """Why a job that made no progress was stopped."""
    return f"no progress on any GPU or in any log for {format_duration(seconds)} (stall_timeout)"


class Progress:
    """The time of the script's last progress; any thread may note it.

    NCCL's kernels keep a GPU at 100 % while they wait for another rank. Only the GPU's performance counters tell that from work.

    Args:
        clock: monotonic clock, in seconds.
        counts: the folder in which the script's processes count their examples (`gpuproof.runtime.log_throughput`).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, counts: Path | None = None) -> None:
        self._clock = clock
        self._counts = counts
        self._counted = 0
        self._last = clock()
        self._memory: dict[int, int | None] = {}

    def note(self) -> None:
        """Note progress now."""
        self._last = self._clock()

    def on_sample(self, sample: Sample) -> None:
        """Note progress if a GPU that the script uses works, if its memory has changed, or if examples were counted."""
        if (counted := self._last_count()) != self._counted:
            self._counted = counted
            self.note()
        pids = sample.tree.pids if sample.tree else frozenset[int]()
        for gpu in sample.gpus:
            changed = self._memory.get(gpu.index, gpu.memory_used) != gpu.memory_used
            self._memory[gpu.index] = gpu.memory_used
            if (changed or _works(gpu)) and _may_be_used_by(gpu, pids):
                self.note()

    def idle(self) -> float:
        """Seconds since the last progress."""
        return self._clock() - self._last

    def _last_count(self) -> int:
        """When a file in the folder was last replaced, in nanoseconds; 0 without any."""
        if self._counts is None:
            return 0
        try:
            return self._counts.stat().st_mtime_ns
        except OSError:
            return 0


def _works(gpu: GpuReading) -> bool:
    return bool(gpu.utilization) and not (gpu.counters is not None and only_spins(gpu.counters))


def _may_be_used_by(gpu: GpuReading, pids: frozenset[int]) -> bool:
    """Whether a GPU's work may be that of some processes; in containers, NVML lists other process ids than those seen here."""
    listed = {pid for pid, _ in gpu.processes or ()}
    return not listed or not pids or bool(listed & pids) or not _are_visible(listed)


def _are_visible(pids: set[int]) -> bool:
    return all(Path(f"/proc/{pid}").exists() for pid in pids)
