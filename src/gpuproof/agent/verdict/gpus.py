"""The finding about one GPU: whose work was it, and was it work."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.agent.verdict.schema import BY_DEVICE, BY_PROCESSES, GpuVerdict
from gpuproof.gpu.aggregate import TAKEN_BYTES, TOO_EARLY_FOR_CUDA_S, idle_memory
from gpuproof.gpu.telemetry import Evidence, GpuEvidence, Work

MIN_BUSY_S = 0.05
"""Less work than this in all is what opening a context and filling some memory take."""
MIN_BUSY_SHARE = 0.01
"""A GPU that worked for a smaller share of the time in which the job held it did almost no work ..."""
ENOUGH_BUSY_S = 60.0
"""... unless it came to a minute in all: hours of preparation before some minutes of training are still training."""
_SEEN_ENOUGH = 0.9
"""A GPU that was seen idle for this share of the run was idle, whatever it did when it could not be read."""


def judge_gpus(evidence: Evidence) -> tuple[GpuVerdict, ...]:
    """The finding about each GPU of the machine."""
    own_anywhere = any(gpu.own_seen for gpu in evidence.gpus)
    hidden = hidden_gpus(evidence.visible_devices, evidence.gpus)
    return tuple(_judge(gpu, evidence, own_anywhere, gpu.info.index in hidden) for gpu in evidence.gpus)


def hidden_gpus(visible_devices: str | None, gpus: Sequence[GpuEvidence]) -> frozenset[int]:
    """The GPUs that `CUDA_VISIBLE_DEVICES` hides; what follows an entry that matches none is hidden too.

    Numbers are taken as NVML's. CUDA counts the fastest GPU first, which is the same where all are equal.
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


def did_work(work: Work) -> bool:
    """Whether a GPU did more than almost nothing."""
    if work.busy_s < MIN_BUSY_S:
        return False
    return work.busy_s >= ENOUGH_BUSY_S or work.busy_s >= MIN_BUSY_SHARE * work.held_s


def _judge(gpu: GpuEvidence, evidence: Evidence, own_anywhere: bool, hidden: bool) -> GpuVerdict:
    worked, judged_by, why = _decide(gpu, evidence, own_anywhere)
    work = gpu.device if judged_by == BY_DEVICE else gpu.own
    peak, total = work.peak_memory, gpu.info.memory_total
    fullest = gpu.device.peak_memory if gpu.device.peak_memory is not None else peak
    return GpuVerdict(
        index=gpu.info.index,
        name=gpu.info.name,
        uuid=gpu.info.uuid,
        worked=worked,
        touched=_touched(gpu, worked, judged_by),
        judged_by=judged_by,
        why=why,
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
        others_present=bool(_others_s(gpu, evidence)),
        hidden=hidden,
    )


def _decide(
    gpu: GpuEvidence, evidence: Evidence, own_anywhere: bool
) -> tuple[bool | None, str | None, str | None]:
    """(worked, judged by, why it cannot be told)."""
    if gpu.readable_s <= 0:
        return None, None, gpu.error or "no sample of it was taken while the job ran"
    if gpu.own_seen:
        worked, judged_by, why = _by_processes(gpu)
    elif own_anywhere or (evidence.pids_comparable and _others_s(gpu, evidence)):
        # Process ids match elsewhere, or must match here: whoever is on this GPU, it is not the job.
        worked, judged_by, why = False, BY_PROCESSES, None
    else:
        worked, judged_by, why = _by_device(gpu, evidence)
    if worked is False and gpu.readable_s < _SEEN_ENOUGH * (gpu.readable_s + gpu.unreadable_s):
        return None, judged_by, f"it could not be read for {gpu.unreadable_s:.0f} s: {gpu.error}"
    return worked, judged_by, why


def _by_processes(gpu: GpuEvidence) -> tuple[bool | None, str | None, str | None]:
    if did_work(gpu.own):
        return True, BY_PROCESSES, None
    if not gpu.utilization_known:
        return (
            None,
            BY_PROCESSES,
            "NVML does not give its utilization" + (", as with MIG" if gpu.info.mig else ""),
        )
    if gpu.own.unclear_s >= max(MIN_BUSY_S, MIN_BUSY_SHARE * gpu.own.held_s):
        return None, BY_PROCESSES, "others were on it too, and NVML does not say who did how much"
    return False, BY_PROCESSES, None


def _by_device(gpu: GpuEvidence, evidence: Evidence) -> tuple[bool | None, str | None, str | None]:
    quiet = gpu.utilization_known and not did_work(gpu.device) and not _memory_rose(gpu)
    if quiet and gpu.processes_listed and evidence.pids_comparable:
        return False, BY_PROCESSES, None
    if quiet:
        return False, BY_DEVICE, None
    if _taken_before(gpu):
        return None, BY_DEVICE, "others had it when the job began, and process ids cannot be matched here"
    if gpu.visible_others_s:
        return (
            None,
            BY_DEVICE,
            "another process of this machine was on it, and process ids cannot be matched here",
        )
    if not gpu.utilization_known:
        return (
            None,
            BY_DEVICE,
            "NVML does not give its utilization" + (", as with MIG" if gpu.info.mig else ""),
        )
    return did_work(gpu.device), BY_DEVICE, None


def _touched(gpu: GpuEvidence, worked: bool | None, judged_by: str | None) -> bool | None:
    if gpu.own_seen or worked:
        return True
    if worked is None:
        return None
    return judged_by == BY_DEVICE and _memory_rose(gpu)


def _others_s(gpu: GpuEvidence, evidence: Evidence) -> float:
    """Seconds in which others were certainly on a GPU; ids that exist only outside a container may be the job's own."""
    hidden = gpu.hidden_others_s if evidence.pids_comparable or gpu.own_seen else 0.0
    return max(gpu.visible_others_s, hidden)


def _memory_rose(gpu: GpuEvidence) -> bool:
    if gpu.device.peak_memory is None:
        return False
    return gpu.device.peak_memory - _memory_without_job(gpu) >= TAKEN_BYTES


def _memory_without_job(gpu: GpuEvidence) -> int:
    """Bytes in use when the job did not have the GPU: before it, or after it where the first look came too late."""
    before = gpu.baseline_memory or 0
    if gpu.baseline_s <= TOO_EARLY_FOR_CUDA_S or gpu.last_memory is None:
        return before
    return min(before, gpu.last_memory)


def _taken_before(gpu: GpuEvidence) -> bool:
    limit = idle_memory(driver_left_out=gpu.baseline_reserved)
    return gpu.others_at_baseline or _memory_without_job(gpu) > limit


def _names(entry: str, gpu: GpuEvidence) -> bool:
    if entry.isdigit():
        return int(entry) == gpu.info.index
    return bool(entry) and (gpu.info.uuid or "").startswith(entry)


def _window(work: Work) -> tuple[float, float] | None:
    if work.first_use_s is None or work.last_use_s is None:
        return None
    return work.first_use_s, work.last_use_s
