"""What each GPU of a job waits for now: the verdict's own rules, on the samples of the last half minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuproof.agent.verdict.activity import activity
from gpuproof.agent.verdict.bottlenecks import waiting_cause
from gpuproof.agent.verdict.evidence import NO_WORK, PHASES, UNDECIDED, WAITING, WORKING, Steps, StepTimes
from gpuproof.agent.verdict.limiting_phase import Machine, limiting_phase
from gpuproof.gpu.aggregate import WaitingAggregator, idle_memory
from gpuproof.gpu.intensity import Intensity, IntensityStats
from gpuproof.gpu.nvml import GpuInfo, GpuReading
from gpuproof.gpu.telemetry import Sample, Waiting, Work
from gpuproof.util.humanize import format_share

WINDOW_S = 30.0
"""What happened before is over."""
UNUSED, LOST, UNEXPLAINED, COMMUNICATION = "unused", "lost", "unexplained", "communication"
_ENOUGH_S = 3.0
_BUSY = 60
"""Percent; the verdict calls a GPU that waits for 40 % of the time limited by something."""
_WHILE_BUSY = ("communication", "copy")
"""Phases of the steps in which a GPU is busy without computing: collective operations spin, and copies count as work."""


class Wait(NamedTuple):
    """What a GPU waits for.

    Attributes:
        kind: a kind of `Bottleneck`, a kind of `Activity`, `unused` (no process of the job has it) or `lost`.
        text: the evidence, as a clause.
    """

    kind: str
    text: str

    def to_json(self) -> dict[str, str]:
        """The wait as a JSON object."""
        return self._asdict()


class RecentActivity:
    """The samples of the last `WINDOW_S` seconds, and what they say of each GPU.

    Args:
        cpu_count: how many cores the job may use.
        has_peers: whether the job has other ranks, for which NCCL's kernels wait by spinning.
    """

    def __init__(self, *, cpu_count: int, has_peers: bool = False) -> None:
        self._cpu_count = cpu_count
        self._has_peers = has_peers
        self._samples: deque[_Recent] = deque()
        self._steps: deque[tuple[float, StepTimes]] = deque()
        self._last_steps: Steps | None = None
        self._own_seen = False

    def add(self, sample: Sample) -> None:
        """Add a sample."""
        pids = sample.tree.pids if sample.tree else frozenset[int]()
        own = {gpu.index for gpu in sample.gpus if any(pid in pids for pid, _ in gpu.processes or ())}
        self._own_seen = self._own_seen or bool(own)
        held = own if self._own_seen else {gpu.index for gpu in sample.gpus if _in_use(gpu)}
        self._samples.append(_Recent(replace(sample, tree=None), frozenset(held)))
        while self._samples[0].sample.t < sample.t - WINDOW_S:
            self._samples.popleft()

    def set_steps(self, t: float, steps: Steps | None) -> None:
        """Add the totals of the job's steps at a time, in seconds as those of the samples."""
        if steps is None:
            return
        if self._steps and steps.total.seconds < self._steps[-1][1].seconds:
            self._steps.clear()  # another process trains now
        self._last_steps = steps
        self._steps.append((t, steps.total))
        while len(self._steps) > 2 and self._steps[1][0] <= t - WINDOW_S:
            self._steps.popleft()

    def waits(self, gpus: Sequence[GpuInfo]) -> dict[int, Wait]:
        """What the GPUs wait for, by index; without those that work, and those of which too little was seen.

        Args:
            gpus: the constant properties of the GPUs of the samples.
        """
        if not self._samples:
            return {}
        newest = self._samples[-1]
        infos = {info.index: info for info in gpus}
        waiting = self._waiting()
        phase = self._phase(waiting)
        found: dict[int, Wait] = {}
        for reading in newest.sample.gpus:
            if reading.error is not None:
                found[reading.index] = Wait(LOST, reading.error)
            elif reading.index not in newest.held:
                found[reading.index] = Wait(UNUSED, "no process of the job uses it")
            else:
                wait = self._of_gpu(reading, infos.get(reading.index), waiting, phase)
                if wait is not None:
                    found[reading.index] = wait
        return found

    def _of_gpu(
        self, reading: GpuReading, info: GpuInfo | None, waiting: Waiting, phase: Wait | None
    ) -> Wait | None:
        seconds, busy = self._utilization(reading.index)
        if seconds < _ENOUGH_S:
            return None
        if busy >= _BUSY:
            if phase is not None and phase.kind in _WHILE_BUSY:
                return phase
            return self._while_busy(reading.index, info, busy)
        if phase is not None:
            return phase
        cause = waiting_cause(waiting)
        if cause is not None:
            return Wait(cause.kind, cause.text)
        return Wait(
            UNEXPLAINED,
            f"the job kept {waiting.mean_cores:.1f} of {self._cpu_count} cores busy and hardly waited for storage",
        )

    def _utilization(self, index: int) -> tuple[float, float]:
        """For how many seconds a GPU was held and read, and its mean utilization, in percent."""
        seconds = total = 0.0
        for sample, held in self._samples:
            reading = next((gpu for gpu in sample.gpus if gpu.index == index), None)
            if index in held and reading is not None and reading.utilization is not None:
                seconds += sample.dt
                total += sample.dt * reading.utilization
        return seconds, total / seconds if seconds else 0.0

    def _while_busy(self, index: int, info: GpuInfo | None, busy: float) -> Wait | None:
        """What a busy GPU does instead of work, by its performance counters."""
        found = activity(
            self._intensity(index, info),
            Work(mean_utilization=busy),
            multiprocessors=info.multiprocessors if info else None,
            has_peers=self._has_peers,
        )
        if found is None or found.kind in (WORKING, UNDECIDED):
            return None
        if found.kind not in NO_WORK and found.working_share is None:
            return None
        return Wait(COMMUNICATION if found.kind == WAITING else found.kind, found.sentence)

    def _intensity(self, index: int, info: GpuInfo | None) -> Intensity | None:
        stats = IntensityStats()
        for sample, _ in self._samples:
            for reading in sample.gpus:
                if reading.index == index and reading.utilization and reading.counters is not None:
                    stats.add(
                        sample.dt,
                        utilization=reading.utilization,
                        counters=reading.counters,
                        power_w=reading.power_w,
                        memory_utilization=reading.memory_utilization,
                        clock_mhz=reading.sm_clock_mhz,
                    )
        return stats.intensity(
            power_limit_w=info.power_limit_w if info else None,
            max_clock_mhz=info.max_sm_clock_mhz if info else None,
        )

    def _waiting(self) -> Waiting:
        total = WaitingAggregator(self._cpu_count)
        for sample, held in self._samples:
            total.add(sample, [gpu.utilization for gpu in sample.gpus if gpu.index in held])
        return total.waiting()

    def _phase(self, waiting: Waiting) -> Wait | None:
        """The phase of the steps in which most time was lost lately."""
        if self._last_steps is None or len(self._steps) < 2:
            return None
        total = _difference(self._steps[0][1], self._steps[-1][1])
        recent = Steps(total, ranks=self._last_steps.ranks)
        machine = Machine(total.seconds, self._cpu_count, waiting.mean_cores, (), waiting)
        limit = limiting_phase(recent, machine)
        if limit is None:
            return None
        share = limit.numbers.get("share")
        head = limit.head or limit.kind
        text = limit.sentence.rstrip(".") if limit.head is None else limit.sentence[len(head) :].strip(": .")
        said = f"{format_share(float(share))} of the steps' time" if isinstance(share, (int, float)) else head
        return Wait(limit.kind, f"{said}: {text}" if text else said)


class _Recent(NamedTuple):
    sample: Sample
    held: frozenset[int]


def _in_use(reading: GpuReading) -> bool:
    if reading.processes:
        return True
    limit = idle_memory(driver_left_out=reading.memory_reserved is not None)
    return (reading.memory_used or 0) > limit or bool(reading.utilization)


def _difference(before: StepTimes, after: StepTimes) -> StepTimes:
    phases: Mapping[str, float] = {
        name: max(after.phases.get(name, 0.0) - before.phases.get(name, 0.0), 0.0) for name in PHASES
    }
    return StepTimes(after.steps - before.steps, after.seconds - before.seconds, phases)
