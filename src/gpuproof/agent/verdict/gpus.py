"""Judges each GPU: did it work, and for the job?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuproof.agent.verdict.activity import activity, waiting_text
from gpuproof.agent.verdict.evidence import Steps
from gpuproof.agent.verdict.schema import BY_DEVICE, BY_PROCESSES, GpuVerdict
from gpuproof.gpu.aggregate import (
    DESKTOP_UTILIZATION,
    MIN_MEMORY_GROWTH,
    TOO_EARLY_FOR_CUDA_S,
    idle_memory,
)
from gpuproof.gpu.nvml import MIB
from gpuproof.gpu.telemetry import GpuTelemetry, Telemetry, Work
from gpuproof.util.humanize import format_share, gpu_list

MIN_BUSY_S = 0.1
"""Total work below this is explained by opening a context and copying a model."""
BRIEF_BUSY_S = 0.5
"""Total work below this must have been dense ..."""
BRIEF_UTILIZATION = 5.0
"""... in percent from first to last use: a smoke test of two seconds is, copying a model to a GPU that then idles is not."""
MIN_BUSY_SHARE = 0.01
"""A GPU that worked for a smaller share of the time in which the job held it did almost no work ..."""
ENOUGH_BUSY_S = 60.0
"""... unless it worked for a minute in total: minutes of training after hours of preparation are still training."""
_CONTEXT = 200 * MIB
"""Bytes that a CUDA context with its first tensors takes at least; a window of a desktop takes less."""
_SEEN_ENOUGH = 0.9
"""A GPU that was idle for this share of the run counts as idle, whatever it did while it could not be read."""


class Judgement(NamedTuple):
    """Whether a GPU worked for the job.

    Attributes:
        worked: `None` if unknown.
        judged_by: `BY_PROCESSES` or `BY_DEVICE`; `None` without a reading.
        why: why it is unknown.
    """

    worked: bool | None
    judged_by: str | None
    why: str | None = None


def judge_gpus(
    telemetry: Telemetry, steps: Steps | None = None, *, has_peers: bool = False
) -> tuple[GpuVerdict, ...]:
    """Judge each GPU of the machine.

    Args:
        steps: where the time of the job's steps went.
        has_peers: whether the job has other hosts, whose ranks a GPU may wait for.
    """
    own_anywhere = any(gpu.own_seen for gpu in telemetry.gpus)
    hidden = hidden_gpus(telemetry.visible_devices, telemetry.gpus)
    judged = [(gpu, _decide(gpu, telemetry, own_anywhere)) for gpu in telemetry.gpus]
    has_peers = has_peers or sum(judgement.worked is True for _, judgement in judged) > 1
    return tuple(
        _verdict(gpu, telemetry, judgement, gpu.info.index in hidden, steps, has_peers)
        for gpu, judgement in judged
    )


def hidden_gpus(visible_devices: str | None, gpus: Sequence[GpuTelemetry]) -> frozenset[int]:
    """The GPUs that `CUDA_VISIBLE_DEVICES` hides; entries after one that matches no GPU are ignored.

    Numbers are taken as NVML's. CUDA numbers the fastest GPU first, which is the same if all are equal.
    Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
    """
    if visible_devices is None or visible_devices.startswith("MIG-"):
        return frozenset()
    visible: set[int] = set()
    for entry in (word.strip() for word in visible_devices.split(",")):
        match = [gpu.info.index for gpu in gpus if _names(entry, gpu)]
        if not match:
            break
        visible.update(match)
    return frozenset(gpu.info.index for gpu in gpus) - visible


def busy_text(working: Sequence[GpuVerdict], steps: Steps | None) -> str:
    """`, 90% busy on average while in use`, how many of the multiprocessors worked, and how long they waited, if that is known."""
    busy = [gpu.mean_utilization for gpu in working if gpu.mean_utilization is not None]
    if not busy:
        return ""
    shares = [gpu.activity.working_share for gpu in working if gpu.activity is not None]
    known = [share for share in shares if share is not None]
    theirs = "its" if len(working) == 1 else "their"
    share = f", {format_share(sum(known) / len(known))} of {theirs} multiprocessors working" if known else ""
    waiting = f", {text}" if (text := waiting_text(steps)) else ""
    return f", {format_share(sum(busy) / len(busy) / 100)} busy on average while in use{share}{waiting}"


def gaps(gpus: Sequence[GpuVerdict]) -> list[str]:
    """Which GPUs did no work, and what they did instead."""
    occupied: dict[str, list[GpuVerdict]] = {}
    for gpu in gpus:
        if gpu.is_occupied and gpu.activity is not None:
            occupied.setdefault(gpu.activity.kind, []).append(gpu)
    said = [
        f"{gpu_list([gpu.index for gpu in alike])} did no work ({alike[0].activity.sentence})"
        for alike in occupied.values()
        if alike[0].activity is not None
    ]
    idle = [gpu.index for gpu in gpus if gpu.worked is False and not gpu.is_occupied]
    unclear = [gpu.index for gpu in gpus if gpu.worked is None]
    return [
        *said,
        *([f"{gpu_list(idle)} did nothing for the job"] if idle else []),
        *([f"{gpu_list(unclear)} unknown"] if unclear else []),
    ]


def did_work(work: Work) -> bool:
    """Whether a GPU did more than a negligible amount of work; `docs/verdict-reference.md` has a table of cases."""
    if work.busy_s >= ENOUGH_BUSY_S:
        return True
    if work.busy_s < MIN_BUSY_S or work.busy_s < MIN_BUSY_SHARE * work.held_s:
        return False
    return work.busy_s >= BRIEF_BUSY_S or (work.mean_utilization or 0.0) >= BRIEF_UTILIZATION


def taken_before(gpu: GpuTelemetry) -> bool:
    """Whether other processes had a GPU, or memory on it, before the job."""
    limit = idle_memory(driver_left_out=gpu.baseline_reserved)
    # A process in a late first reading may be the job's own.
    listed = gpu.others_at_baseline and not _began_before(gpu)
    return listed or _memory_without_job(gpu) > limit


def _verdict(
    gpu: GpuTelemetry,
    telemetry: Telemetry,
    judgement: Judgement,
    hidden: bool,
    steps: Steps | None,
    has_peers: bool,
) -> GpuVerdict:
    work = gpu.device if judgement.judged_by == BY_DEVICE else gpu.own
    others_present = bool(_others_s(gpu, telemetry))
    did = None
    if judgement.worked:
        did = activity(
            gpu.intensity,
            work,
            # Of a MIG instance, it is unknown.
            multiprocessors=None if gpu.info.mig else gpu.info.multiprocessors,
            steps=steps,
            has_peers=has_peers,
            is_complete=not others_present and _is_seen_enough(gpu),
        )
    peak, total = work.peak_memory, gpu.info.memory_total
    fullest = gpu.device.peak_memory if gpu.device.peak_memory is not None else peak
    return GpuVerdict(
        index=gpu.info.index,
        name=gpu.info.name,
        uuid=gpu.info.uuid,
        worked=judgement.worked and not (did is not None and did.is_no_work),
        touched=_touched(gpu, judgement),
        judged_by=judgement.judged_by,
        why=judgement.why,
        first_use_s=work.first_use_s,
        active_window=_window(work),
        mean_utilization=work.mean_utilization,
        p90_utilization=work.p90_utilization,
        busy_s=work.busy_s,
        held_s=work.held_s,
        peak_memory=peak,
        memory_total=total,
        headroom=None if total is None or fullest is None else max(total - fullest, 0),
        mean_power_w=work.mean_power_w,
        max_power_w=work.max_power_w,
        power_limit_w=gpu.info.power_limit_w,
        throttle=dict(work.throttle),
        series=work.series,
        others_present=others_present,
        hidden=hidden,
        intensity=gpu.intensity if did is not None else None,
        activity=did,
        ecc_errors=gpu.ecc_errors,
        energy_j=gpu.energy_j,
    )


def _decide(gpu: GpuTelemetry, telemetry: Telemetry, own_anywhere: bool) -> Judgement:
    if gpu.readable_s <= 0:
        return Judgement(None, None, gpu.error or "no sample of it was taken while the job ran")
    if gpu.own_seen:
        judgement = _by_processes(gpu)
    elif own_anywhere or (telemetry.pids_comparable and _others_s(gpu, telemetry)):
        # Process ids match elsewhere, or must match here: the processes on this GPU do not belong to the job.
        judgement = Judgement(worked=False, judged_by=BY_PROCESSES)
    else:
        judgement = _by_device(gpu, telemetry)
    if judgement.worked is False and not _is_seen_enough(gpu):
        return Judgement(
            None, judgement.judged_by, f"it could not be read for {gpu.unreadable_s:.0f} s: {gpu.error}"
        )
    return judgement


def _is_seen_enough(gpu: GpuTelemetry) -> bool:
    return gpu.readable_s >= _SEEN_ENOUGH * (gpu.readable_s + gpu.unreadable_s)


def _by_processes(gpu: GpuTelemetry) -> Judgement:
    if did_work(gpu.own):
        return Judgement(worked=True, judged_by=BY_PROCESSES)
    if not gpu.utilization_known:
        return Judgement(None, BY_PROCESSES, _no_utilization(gpu))
    if gpu.own.held_s - gpu.own.unclear_s < _SEEN_ENOUGH * gpu.own.held_s:
        return Judgement(None, BY_PROCESSES, f"other processes used it too, and {_unknown_share(gpu.own)}")
    return Judgement(worked=False, judged_by=BY_PROCESSES)


def _by_device(gpu: GpuTelemetry, telemetry: Telemetry) -> Judgement:
    # Opening a GPU, or one of its MIG instances, takes memory, even if NVML does not report utilization.
    measured = gpu.utilization_known or (gpu.processes_listed and gpu.last_memory is not None)
    if measured and not did_work(gpu.device) and not _memory_rose(gpu):
        by_processes = gpu.processes_listed and telemetry.pids_comparable
        return Judgement(worked=False, judged_by=BY_PROCESSES if by_processes else BY_DEVICE)
    if taken_before(gpu) and not gpu.visible_others_s and (decided := _against_first(gpu)) is not None:
        return Judgement(decided, BY_DEVICE)
    if taken_before(gpu):
        why = (
            "it was in use when monitoring began"
            if _began_before(gpu)
            else "other processes used it when the job began"
        )
        why += ", and process ids cannot be matched here"
        return Judgement(None, BY_DEVICE, why)
    if gpu.visible_others_s:
        why = "another process of this machine used it, and process ids cannot be matched here"
        return Judgement(None, BY_DEVICE, why)
    if not gpu.utilization_known:
        return Judgement(None, BY_DEVICE, _no_utilization(gpu))
    return Judgement(worked=did_work(gpu.device), judged_by=BY_DEVICE)


def _against_first(gpu: GpuTelemetry) -> bool | None:
    """Whether the job used a GPU that others held before it, by what rose since the first reading; None if unclear.

    Opening a GPU takes memory: without a rise, the job did not. A desktop takes memory and a little time; a rise of both far
    above that is the job's, which is the only thing that has begun.
    """
    if _began_before(gpu) or gpu.baseline_memory is None:
        return None
    if gpu.memory_rise < MIN_MEMORY_GROWTH:
        return False
    if gpu.baseline_utilization is None or gpu.baseline_utilization > DESKTOP_UTILIZATION:
        return None
    return True if gpu.memory_rise >= _CONTEXT and did_work(gpu.above_baseline) else None


def _unknown_share(own: Work) -> str:
    known_s = own.held_s - own.unclear_s
    if known_s <= 0:
        return "NVML does not report each process's share"
    return f"NVML reported the job's share for only {known_s:.0f} s of {own.held_s:.0f} s"


def _no_utilization(gpu: GpuTelemetry) -> str:
    return "NVML does not report its utilization" + (", as with MIG" if gpu.info.mig else "")


def _touched(gpu: GpuTelemetry, judgement: Judgement) -> bool | None:
    if gpu.own_seen or judgement.worked:
        return True
    if judgement.worked is None:
        return None
    # A GPU that was in use when monitoring began may have been the job's already.
    return judgement.judged_by == BY_DEVICE and (
        _memory_rose(gpu) or (_began_before(gpu) and taken_before(gpu))
    )


def _began_before(gpu: GpuTelemetry) -> bool:
    """Whether the job was running long enough before the first reading to have been using the GPU then."""
    return gpu.baseline_s > TOO_EARLY_FOR_CUDA_S


def _others_s(gpu: GpuTelemetry, telemetry: Telemetry) -> float:
    """Seconds in which other processes certainly used a GPU; ids from outside a container may be the job's own."""
    hidden = gpu.hidden_others_s if telemetry.pids_comparable or gpu.own_seen else 0.0
    return max(gpu.visible_others_s, hidden)


def _memory_rose(gpu: GpuTelemetry) -> bool:
    if gpu.device.peak_memory is None:
        return False
    return gpu.device.peak_memory - _memory_without_job(gpu) >= MIN_MEMORY_GROWTH


def _memory_without_job(gpu: GpuTelemetry) -> int:
    """Bytes in use without the job: before it, or after it if the first sample came too late."""
    before = gpu.baseline_memory or 0
    if not _began_before(gpu) or gpu.last_memory is None:
        return before
    return min(before, gpu.last_memory)


def _names(entry: str, gpu: GpuTelemetry) -> bool:
    if entry.isdigit():
        return int(entry) == gpu.info.index
    return bool(entry) and (gpu.info.uuid or "").startswith(entry)


def _window(work: Work) -> tuple[float, float] | None:
    if work.first_use_s is None or work.last_use_s is None:
        return None
    return work.first_use_s, work.last_use_s
