"""Finds what limited the GPUs, as far as the measurements show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuproof.agent.verdict.evidence import COPY_BOUND, LAUNCH_BOUND
from gpuproof.agent.verdict.schema import Bottleneck, GpuVerdict
from gpuproof.gpu.processes import ShmReading
from gpuproof.gpu.telemetry import Waiting
from gpuproof.util.humanize import format_bytes, format_share, gpu_list

ONE_CORE, ALL_CORES, DISK = "one-core", "all-cores", "disk"
GUESSES = (ONE_CORE, ALL_CORES, DISK, "unexplained")
"""Kinds that are concluded from what the CPU and the disk did while the GPU waited."""

_LONG_ENOUGH_S = 5.0
"""A shorter run is still starting up and shows nothing."""
_WAITS = 0.4
"""GPUs that waited for a smaller share of their time are well utilized."""
_POINTS_TO = 0.3
"""Activity during at least this share of the waiting is reported."""
_SHM_FULL = 0.9
_MOSTLY_BUSY = 0.5
"""A GPU that is idle for longer waits for something else first."""
_THROTTLED = 0.05
_ADVICE = {
    LAUNCH_BOUND: (
        "make batches larger, or launch less: CUDA graphs "
        '(torch.compile(mode="reduce-overhead")), tf.function(jit_compile=True), fused optimizers'
    ),
    COPY_BOUND: (
        "copy while the GPU computes (DataLoader pin_memory=True and .to(non_blocking=True); tf.data prefetch_to_device), send "
        "smaller types and convert them on the GPU, or keep the data there"
    ),
}
"""What to do about multiprocessors that do little, by the activity's kind."""
_PHASES = {COPY_BOUND: "copy"}
"""Bottlenecks that have the name of the phase of the steps in which the time is lost."""
TROUBLING = (
    "hardware slowdown",
    "thermal slowdown (software)",
    "thermal slowdown (hardware)",
    "power brake",
)
"""Not the power cap: a well-used data-centre GPU runs at it all day."""


def bottlenecks(
    waiting: Waiting, shm: ShmReading | None, gpus: Sequence[GpuVerdict]
) -> tuple[Bottleneck, ...]:
    """What limited the job's GPUs, most important first; empty if nothing did."""
    if not any(gpu.touched for gpu in gpus):
        return ()
    found = [*_waits(waiting), *(_low_activity(gpus, kind) for kind in _ADVICE), _shm(shm), _throttling(gpus)]
    return tuple(bottleneck for bottleneck in found if bottleneck is not None)


class Cause(NamedTuple):
    """What happened while the GPUs waited.

    Attributes:
        kind: `one-core`, `all-cores` or `disk`.
        text: a clause, such as `python (process 4711) ran at 99% of one core`.
    """

    kind: str
    text: str


def waiting_cause(waiting: Waiting) -> Cause | None:
    """What happened during most of the time in which the GPUs waited; `None` if nothing was measured."""
    causes = [
        (waiting.one_core_s, Cause(ONE_CORE, _who(waiting))),
        (waiting.all_cores_s, Cause(ALL_CORES, f"all {waiting.cpu_count} cores were busy")),
        (waiting.disk_s, Cause(DISK, f"the job waited for storage ({_reading(waiting)})")),
    ]
    seconds, cause = max(causes, key=lambda candidate: candidate[0])
    return cause if seconds > 0 and seconds >= _POINTS_TO * waiting.waiting_s else None


def _waits(waiting: Waiting) -> list[Bottleneck]:
    if waiting.held_s < _LONG_ENOUGH_S or waiting.waiting_s < _WAITS * waiting.held_s:
        return []
    candidates = [
        (waiting.one_core_s, _one_core),
        (waiting.all_cores_s, _all_cores),
        (waiting.disk_s, _disk),
    ]
    candidates.sort(key=lambda candidate: -candidate[0])
    found = [build(waiting) for seconds, build in candidates if seconds >= _POINTS_TO * waiting.waiting_s]
    return found or [_unexplained(waiting)]


def _one_core(waiting: Waiting) -> Bottleneck:
    advice = (
        "give the input pipeline more workers, or do less for each sample"
        if _several(waiting)
        else "prepare the data in more processes (DataLoader num_workers, tf.data num_parallel_calls and prefetch), or make bigger batches"
    )
    return Bottleneck(
        ONE_CORE,
        f"{_waited(waiting)} while {_who(waiting)} and other cores were free: {advice}.",
        {
            **_numbers(waiting, waiting.one_core_s),
            "pid": waiting.busiest_pid,
            "process": waiting.busiest_name,
            "process_cpu_percent": round(100 * waiting.busiest_cores, 1),
            "saturated_processes": round(waiting.saturated, 1),
        },
    )


def _several(waiting: Waiting) -> bool:
    return waiting.saturated >= 1.5


def _who(waiting: Waiting) -> str:
    name = waiting.busiest_name or "a process"
    if _several(waiting):
        return f"{waiting.saturated:.0f} of the job's processes kept a core busy each ({name} the most)"
    return f"{name} (process {waiting.busiest_pid}) ran at {format_share(waiting.busiest_cores)} of one core"


def _reading(waiting: Waiting) -> str:
    return f"reading {waiting.read_rate / 1e6:.0f} MB/s"


def _all_cores(waiting: Waiting) -> Bottleneck:
    return Bottleneck(
        ALL_CORES,
        f"{_waited(waiting)} while all {waiting.cpu_count} cores were busy: choose an instance with more cores for "
        "each GPU, or prepare the data once and store it.",
        {**_numbers(waiting, waiting.all_cores_s), "cores": waiting.cpu_count},
    )


def _disk(waiting: Waiting) -> Bottleneck:
    return Bottleneck(
        DISK,
        f"{_waited(waiting)} while the job waited for storage ({_reading(waiting)}): read fewer "
        "and bigger files, prefetch, or keep the data on local NVMe.",
        {**_numbers(waiting, waiting.disk_s), "read_bytes_per_s": round(waiting.read_rate)},
    )


def _unexplained(waiting: Waiting) -> Bottleneck:
    return Bottleneck(
        "unexplained",
        f"{_waited(waiting)} for no measured reason: the job kept {waiting.mean_cores:.1f} of "
        f"{waiting.cpu_count} cores busy and hardly waited for storage. Check for sleeps, network reads, tiny batches and "
        "synchronous logging.",
        {**_numbers(waiting, 0.0), "cores_busy": round(waiting.mean_cores, 2)},
    )


def _low_activity(gpus: Sequence[GpuVerdict], kind: str) -> Bottleneck | None:
    """GPUs that were busy for most of the time, and whose multiprocessors did little for the same reason."""
    bound = [
        (gpu.index, gpu.activity)
        for gpu in gpus
        if gpu.activity is not None and gpu.activity.kind == kind and gpu.worked
    ]
    busy = [(index, did) for index, did in bound if (did.busy_share or 0.0) >= _MOSTLY_BUSY]
    if not busy:
        return None
    first = busy[0][1]
    which = f"{gpu_list([index for index, _ in busy])}: " if len(gpus) > 1 else ""
    head = f"{which}{first.sentence}"
    return Bottleneck(
        _PHASES.get(kind, kind),
        f"{head}: {_ADVICE[kind]}.",
        {
            "busy_share": round(first.busy_share or 0.0, 3),
            "working_share": None if first.working_share is None else round(first.working_share, 4),
            "certainty": first.certainty,
        },
        head=head,
    )


def _shm(shm: ShmReading | None) -> Bottleneck | None:
    if shm is None or shm.used < _SHM_FULL * shm.total:
        return None
    return Bottleneck(
        "shm",
        f"Shared memory (/dev/shm) was {format_share(shm.used / shm.total)} full ({format_bytes(shm.used)} of "
        f"{format_bytes(shm.total)}): "
        "DataLoader workers pass batches through it and die with a bus error when it is full. Use fewer workers, or "
        "give the container more (docker run --shm-size).",
        {"used": shm.used, "total": shm.total},
    )


def _throttling(gpus: Sequence[GpuVerdict]) -> Bottleneck | None:
    found = {
        gpu.index: {reason: share for reason, share in gpu.throttle.items() if reason in TROUBLING}
        for gpu in gpus
        if gpu.worked
    }
    shares = {index: max(reasons.values()) for index, reasons in found.items() if reasons}
    shares = {index: share for index, share in shares.items() if share >= _THROTTLED}
    if not shares:
        return None
    worst = max(shares, key=lambda index: shares[index])
    reasons = sorted({reason for index in shares for reason in found[index]})
    return Bottleneck(
        "throttling",
        f"{gpu_list(sorted(shares))} ran with lowered clocks for up to {format_share(shares[worst])} of the "
        f"working time ({', '.join(reasons)}): the machine could not cool or power it. Replace a rented machine.",
        {f"gpu_{index}_share": round(share, 3) for index, share in shares.items()},
    )


def _waited(waiting: Waiting) -> str:
    return f"The GPU waited {format_share(waiting.waiting_s / waiting.held_s)} of the time"


def _numbers(waiting: Waiting, explained_s: float) -> dict[str, float | int | str | None]:
    return {
        "waiting_share": round(waiting.waiting_s / waiting.held_s, 3),
        "explained_share": round(explained_s / waiting.waiting_s, 3) if waiting.waiting_s else 0.0,
    }
