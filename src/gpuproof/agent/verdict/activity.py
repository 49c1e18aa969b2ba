"""Classifies what a busy GPU did: NVML's utilization is the share of time in which some kernel ran, however little it did.

Docs: docs/verdict-reference.md, "What a busy GPU did", has each class with its evidence, thresholds and sources.
"""

from __future__ import annotations

from dataclasses import replace

from gpuproof.agent.verdict.evidence import (
    COPY_BOUND,
    COPYING,
    FEW_MULTIPROCESSORS,
    INFERRED,
    LAUNCH_BOUND,
    MEASURED,
    NO_WORK,
    UNDECIDED,
    WAITING,
    WORKING,
    Activity,
    Intensity,
    Steps,
)
from gpuproof.gpu.intensity import Counters
from gpuproof.gpu.telemetry import Work
from gpuproof.util.humanize import format_share

MIN_MEASURED_S = 5.0
"""Counters cover their whole interval; this many seconds are five samples."""
MOST_OF_THE_TIME = 0.8
"""Counters of a smaller share of the busy time may have missed work."""
MIN_INFERRED_S = 30.0
"""Power is itself an average over a second, and clocks take seconds to rise. Source: NVML, nvmlDeviceGetPowerUsage."""
ALWAYS_BUSY = 0.8
"""A kernel that spins leaves no gaps; the first and the last second count in part. Kernels of a few microseconds, launched
one by one, left a gap of more than half of the time on an H100 (bench/results/gpu_session-H100.json, `tiny_kernels`)."""
NO_MATH = 1e-4
"""Share of the cycles of the active multiprocessors in which they computed. A product of a vector and a small matrix by one
warp is above 1e-3, an addition in every thread of a small kernel above 5e-4; a loop that waits may have none."""
ENOUGH_MATH_S = 1.0
"""Seconds of computation, as if of all multiprocessors, that are work however long the GPU waited besides: a minute of training."""
LITTLE_MATH = 0.02
"""DCGM's FP32 counter is of a pipe that multiplies integers, too, so that some loops that wait have a little of it. This is no
evidence by itself: real kernels of one block may have as little. Source: as `FEW`, "FP32 Engine Activity"."""
WHOLE = 0.01
"""A kernel that never ends occupies a whole number of multiprocessors; launches one after the other rarely do, on average."""
NO_MEMORY = 0.005
"""Share of the memory's bandwidth. An idle GPU is at 0; copies within the GPU and embeddings are far above."""
LITTLE_INTEGER = 0.25
"""Share of the cycles of the active multiprocessors with integer instructions. A thread that reads a clock or polls a flag waits
tens of cycles for each; a block that sorts or hashes does not."""
NO_TRAFFIC = 100e6
"""Bytes per second over PCIe or NVLink; matrix products with a synchronization after each took 6 MB/s on an H100
(bench/results/gpu_session-H100.json, `facts`)."""
ONE_MULTIPROCESSOR = 0.8
"""A kernel that never ends keeps at least one multiprocessor occupied all the time."""
NO_MULTIPROCESSOR = 0.02
"""Multiprocessors that were active on average while only a copy engine works."""
FEW = 0.5
"""NVIDIA: a lower share of active multiprocessors likely indicates an ineffective use.
Source: https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/feature-overview.html, "SM Activity"."""
MOSTLY_WAITED = 0.25
"""Kernels that occupy a smaller share of the multiprocessors than this while they run are too small or too short for the GPU."""
BOUND_BY_MEMORY = 0.3
"""A kernel that uses so much of the memory's bandwidth works, however few multiprocessors it occupies."""
LOW_POWER = 0.15
"""Power above idle, as a share of the limit above idle. One spinning thread: 10 % on an H100 (bench/results/gpu_session-H100.json),
5 to 8 % on V100s (NVIDIA/nccl#199, zai-org/GLM-130B#32), about 70 W on GPUs that wait in NCCL (NVIDIA/nccl#968)."""
WORKING_POWER = 0.3
"""Input-bound training, busy for 9 % of the time, took 13 % on an H100, and training at full speed 60 % and more."""
WORKING_MEMORY = 0.2
"""Share of the time in which memory was read or written, by NVML."""
COPYING_TRAFFIC = 2e9
"""Bytes per second over PCIe; input of 2,500 images a second is below it. Gradients of GPUs without NVLink are not: with peers,
traffic says nothing about copies from the host."""
MOSTLY_COMMUNICATION = 0.5
"""Share of the steps' time."""
_FEWEST_MULTIPROCESSORS = 40
"""Of the GPUs on AWS: those of a T4."""


def activity(
    intensity: Intensity | None,
    work: Work,
    *,
    multiprocessors: int | None = None,
    steps: Steps | None = None,
    has_peers: bool = False,
    is_complete: bool = True,
) -> Activity | None:
    """What a GPU did while it was busy; `None` if it never was.

    Args:
        intensity: how hard it worked.
        work: its work for the job.
        multiprocessors: how many it has.
        steps: where the time of the job's steps went.
        has_peers: whether the job has other ranks, for which NCCL's kernels wait by spinning.
        is_complete: whether the counters are of all the time in which it was busy, and of the job alone.
    """
    if intensity is None or work.mean_utilization is None:
        return None
    busy = work.mean_utilization / 100
    if _contradicts(intensity, busy, multiprocessors):
        intensity = replace(intensity, sm_active=None)
    working = _working_share(intensity, work)
    kind, certainty = _class(intensity, busy, multiprocessors, has_peers, is_complete)
    if steps is not None and not (kind in NO_WORK and certainty == MEASURED):
        kind, certainty = _by_steps(kind, certainty, steps)
    said = f"busy {format_share(busy)}" + ("" if working is None else f", working {format_share(working)}")
    what = _words(kind, certainty, intensity, multiprocessors, steps, has_peers)
    return Activity(kind, certainty, f"{said}: {what}" if what else said, busy, working)


def _class(
    intensity: Intensity, busy: float, multiprocessors: int | None, has_peers: bool, is_complete: bool
) -> tuple[str, str]:
    if intensity.sm_active is None:
        return _inferred(intensity, busy, has_peers)
    computed = _computed(intensity)
    share = intensity.sm_active / max(intensity.busy or busy, intensity.sm_active)
    # Without all counters of instructions, traffic and many multiprocessors speak for work.
    may_compute = computed or (computed is None and (share >= FEW or not moved_nothing(intensity)))
    if may_compute and (share >= MOSTLY_WAITED or (intensity.dram_active or 0.0) >= BOUND_BY_MEMORY):
        return WORKING, MEASURED if is_complete else INFERRED
    counted_s = intensity.seconds if intensity.counted_s is None else intensity.counted_s
    if counted_s < MIN_MEASURED_S:
        return UNDECIDED, UNDECIDED
    active = intensity.sm_active * (multiprocessors or _FEWEST_MULTIPROCESSORS)
    is_complete = is_complete and counted_s >= MOST_OF_THE_TIME * intensity.seconds
    is_certain = computed is False and is_complete and multiprocessors is not None
    if not computed and busy >= FEW and active < NO_MULTIPROCESSOR and _traffic(intensity) >= NO_TRAFFIC:
        return COPYING, MEASURED if is_certain else INFERRED
    spin = WAITING if has_peers else FEW_MULTIPROCESSORS
    if not computed and busy >= ALWAYS_BUSY and active >= ONE_MULTIPROCESSOR and share < FEW:
        if moved_nothing(intensity):
            return spin, MEASURED if is_certain else INFERRED
        return (WAITING, INFERRED) if has_peers else (UNDECIDED, UNDECIDED)
    if computed and busy >= ALWAYS_BUSY and _occupies_a_few_for_good(intensity, active, busy):
        return spin, INFERRED
    if computed is False and share >= MOSTLY_WAITED:
        return UNDECIDED, UNDECIDED
    if not has_peers and _traffic(intensity) >= COPYING_TRAFFIC:
        return COPY_BOUND, INFERRED
    return LAUNCH_BOUND, MEASURED if is_complete and not has_peers else INFERRED


def _contradicts(intensity: Intensity, busy: float, multiprocessors: int | None) -> bool:
    """Whether a GPU was busy, and by its counters neither computed nor copied: they do not count then, such as without permission."""
    if intensity.sm_active is None or busy < FEW:
        return False
    active = intensity.sm_active * (multiprocessors or _FEWEST_MULTIPROCESSORS)
    return active < NO_MULTIPROCESSOR and _traffic(intensity) < NO_TRAFFIC


def _computed(intensity: Intensity) -> bool | None:
    """Whether a GPU computed more than a loop that waits; `None` if not all kinds of instructions are counted."""
    active = intensity.sm_active or 0.0
    math = sum(share for share in _math(intensity) if share is not None)
    if math > NO_MATH * active or math * intensity.seconds >= ENOUGH_MATH_S:
        return True
    if (intensity.dram_active or 0.0) >= BOUND_BY_MEMORY:
        return True
    # A loop that waits compares: without a single instruction, these counters do not count.
    if None in _math(intensity) or not intensity.integer_active or intensity.dram_active is None:
        return None if active else False
    return intensity.integer_active > LITTLE_INTEGER * active


def _occupies_a_few_for_good(intensity: Intensity, active: float, busy: float) -> bool:
    """Whether hardly anything was computed, on one or two multiprocessors that were never free while a kernel ran."""
    at_once = active / max(intensity.busy or busy, ALWAYS_BUSY)
    tensor, fp64, fp32, fp16 = (math or 0.0 for math in _math(intensity))
    return (
        round(at_once) in (1, 2)
        and abs(at_once - round(at_once)) <= WHOLE
        and tensor + fp64 + fp16 == 0
        and fp32 <= LITTLE_MATH * (intensity.sm_active or 0.0)
        and (intensity.integer_active or 0.0) <= LITTLE_INTEGER * (intensity.sm_active or 0.0)
        and moved_nothing(intensity)
    )


def waiting_text(steps: Steps | None) -> str:
    """`waiting in collective operations 60% of the time for rank 5 on algo-3`; empty if the steps show no such wait."""
    if steps is None:
        return ""
    straggler = steps.straggler
    share = straggler.share if straggler is not None else _share_of(steps, "communication")
    if straggler is None and share < MOSTLY_COMMUNICATION:
        return ""
    said = f"waiting in collective operations {format_share(share)} of the time"
    if straggler is None:
        return said
    return f"{said} for rank {straggler.rank}" + (f" on {straggler.host}" if straggler.host else "")


def moved_nothing(counters: Counters | Intensity) -> bool:
    """Whether a GPU neither used its memory nor exchanged data with the host or other GPUs, as far as that is counted."""
    traffic = (counters.pcie_bytes_per_s, counters.nvlink_bytes_per_s)
    return (counters.dram_active or 0.0) < NO_MEMORY and all((rate or 0.0) < NO_TRAFFIC for rate in traffic)


def only_spins(counters: Counters) -> bool:
    """Whether a GPU certainly neither computed nor moved anything between two readings: no progress, if it was busy."""
    return all(math == 0 for math in _math(counters)) and moved_nothing(counters)


def _math(counters: Counters | Intensity) -> tuple[float | None, ...]:
    return (counters.tensor_active, counters.fp64_active, counters.fp32_active, counters.fp16_active)


def _traffic(intensity: Intensity) -> float:
    return intensity.pcie_bytes_per_s or 0.0


def _inferred(intensity: Intensity, busy: float, has_peers: bool) -> tuple[str, str]:
    power, memory = intensity.power_share, intensity.memory_utilization or 0.0
    if (power or 0.0) >= WORKING_POWER or memory >= WORKING_MEMORY:
        return WORKING, INFERRED
    if power is None or power >= LOW_POWER or busy < ALWAYS_BUSY or intensity.seconds < MIN_INFERRED_S:
        return UNDECIDED, UNDECIDED
    if _traffic(intensity) >= COPYING_TRAFFIC:
        return COPYING, INFERRED
    return (WAITING if has_peers else FEW_MULTIPROCESSORS), INFERRED


def _by_steps(kind: str, certainty: str, steps: Steps) -> tuple[str, str]:
    """Steps were trained, so something worked; and they know about waits that counters only show as little work."""
    if kind in NO_WORK:
        kind, certainty = (COPY_BOUND if kind == COPYING else LAUNCH_BOUND), INFERRED
    return (WORKING, INFERRED) if waiting_text(steps) else (kind, certainty)


def _share_of(steps: Steps, phase: str) -> float:
    return steps.total.phases.get(phase, 0.0) / steps.total.seconds if steps.total.seconds else 0.0


def _working_share(intensity: Intensity, work: Work) -> float | None:
    """The share of multiprocessors that worked, over the active window, of which the counters cover the busy samples."""
    if intensity.sm_active is None or not work.mean_utilization:
        return None
    window_s = 100 * work.busy_s / work.mean_utilization
    return intensity.sm_active * min(intensity.seconds / window_s, 1.0) if window_s else None


def _words(
    kind: str,
    certainty: str,
    intensity: Intensity,
    multiprocessors: int | None,
    steps: Steps | None,
    has_peers: bool,
) -> str:
    if kind == WORKING:
        return waiting_text(steps)
    if kind == WAITING:
        probably = "" if certainty == MEASURED else "probably "
        return f"{probably}waiting for other ranks in collective operations, which spin"
    power = intensity.power_share
    low = f"power only {format_share(power)} above idle" if power is not None else "little power"
    if kind == FEW_MULTIPROCESSORS and certainty == INFERRED and intensity.sm_active is not None:
        return f"probably a kernel that computes nothing, on {_of_all(intensity, multiprocessors)}"
    if kind == FEW_MULTIPROCESSORS and certainty == INFERRED:
        return f"probably a few multiprocessors or very short kernels ({low})"
    if kind == FEW_MULTIPROCESSORS:
        return f"a kernel that computes nothing occupies {_of_all(intensity, multiprocessors)}"
    if kind == COPYING:
        return f"{'only copies' if certainty == MEASURED else 'probably only copies'}, {_rate(intensity)}"
    if kind == COPY_BOUND:
        return f"its kernels probably wait for copies, {_rate(intensity)}"
    if kind == LAUNCH_BOUND:
        peers = ", or it waits for other ranks" if has_peers else ""
        return f"its kernels are too small or too short for the GPU{peers}"
    return ""


def _rate(intensity: Intensity) -> str:
    return f"{_traffic(intensity) / 1e9:.1f} GB/s over PCIe"


def _of_all(intensity: Intensity, multiprocessors: int | None) -> str:
    if not multiprocessors or intensity.sm_active is None:
        return "a few multiprocessors"
    number = max(round(intensity.sm_active * multiprocessors), 1)
    return f"{number} of {multiprocessors} multiprocessors"
