"""Judges the telemetry of a run against what was expected of it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuproof.agent.verdict.balance import imbalance
from gpuproof.agent.verdict.bottlenecks import bottlenecks
from gpuproof.agent.verdict.energy import host_energy
from gpuproof.agent.verdict.evidence import COPYING, FEW_MULTIPROCESSORS, WAITING, Steps
from gpuproof.agent.verdict.gpus import busy_text, gaps, judge_gpus, taken_before
from gpuproof.agent.verdict.schema import (
    BY_DEVICE,
    CPU_ONLY,
    IDLE,
    NO_GPU_EXPECTED,
    OCCUPIED,
    UNKNOWN,
    Expectation,
    GpuVerdict,
    ProcessSummary,
    Verdict,
    outcome_of_working,
)
from gpuproof.gpu.telemetry import NvmlState, Telemetry
from gpuproof.util.humanize import format_duration, gpu_list, pluralize

_OCCUPIED_REMEDIES = {
    WAITING: "Look at the rank that the others wait for: the last lines of its log, `py-spy dump` of its process, NCCL_DEBUG=INFO.",
    COPYING: "Check that the model computes on the GPU: model.device, tf.debugging.set_log_device_placement(True); copies alone are no work.",
    FEW_MULTIPROCESSORS: "Look for a kernel that waits for a flag or a clock, and for a program that only keeps the GPU busy.",
}


def judge(
    expectation: Expectation, telemetry: Telemetry, steps: Steps | None = None, *, has_peers: bool = False
) -> Verdict:
    """Return the verdict on a run, or on a run so far.

    Args:
        steps: where the time of the steps went, if that is known.
        has_peers: whether the job has other hosts.
    """
    gpus = judge_gpus(telemetry, steps, has_peers=has_peers)
    outcome = _outcome(expectation, telemetry, gpus)
    tree = telemetry.tree
    uneven = imbalance(gpus)
    return Verdict(
        outcome=outcome,
        reason=_reason(outcome, expectation, telemetry, gpus, steps),
        remedy=_remedy(outcome, gpus),
        expectation=expectation,
        gpus_expected=expectation.count,
        gpus_working=_working(gpus),
        gpus_present=len(gpus),
        gpu_requirement_met=_requirement_met(expectation, telemetry, gpus),
        gpus=gpus,
        bottlenecks=(
            *bottlenecks(telemetry.waiting, telemetry.shm_peak, gpus),
            *([uneven] if uneven else []),
        ),
        processes=None
        if tree is None
        else ProcessSummary(
            peak_rss=tree.peak_rss,
            mean_cpu_percent=100 * tree.mean_cores,
            cpu_seconds=tree.cpu_seconds,
            read_bytes=tree.read_bytes,
            written_bytes=tree.written_bytes,
            peak_processes=tree.peak_processes,
        ),
        cpu_count=telemetry.waiting.cpu_count,
        shm_peak=telemetry.shm_peak.used if telemetry.shm_peak else None,
        shm_total=telemetry.shm_peak.total if telemetry.shm_peak else None,
        driver_version=telemetry.driver_version,
        seconds=telemetry.seconds,
        samples=telemetry.samples,
        notes=tuple(_notes(expectation, telemetry, gpus)),
        energy=host_energy(expectation, gpus),
    )


def used_so_far(telemetry: Telemetry, *, has_peers: bool = False) -> bool | None:
    """Whether any GPU has done work for the job so far; `None` if unknown.

    A job may be stopped for not using its GPU only if this `is False`: of a busy GPU, if its counters show that it only spins or
    copies, and not while it may wait for other ranks, which may still prepare their data.
    """
    if telemetry.nvml == NvmlState.MISSING:
        return False
    if telemetry.nvml != NvmlState.AVAILABLE:
        return None
    gpus = judge_gpus(telemetry, has_peers=has_peers)
    if _working(gpus):
        return True
    waits = any(gpu.activity is not None and gpu.activity.kind == WAITING for gpu in gpus)
    return None if waits or any(gpu.worked is None for gpu in gpus) else False


def used_reason(expectation: Expectation, gpus: Sequence[GpuVerdict], steps: Steps | None = None) -> str:
    """The reason of a verdict on GPUs of which some worked."""
    working = [gpu for gpu in gpus if gpu.worked]
    busy = busy_text(working, steps)
    if expectation.count == 0:
        return f"No GPU was expected, and {pluralize(len(working), 'GPU')} worked{busy}."
    sentence = f"{len(working)} of {pluralize(expectation.count, 'GPU')} worked{busy}"
    if len(working) < expectation.count:
        sentence = "; ".join([sentence, *gaps(gpus)])
    return sentence + "."


def _outcome(expectation: Expectation, telemetry: Telemetry, gpus: Sequence[GpuVerdict]) -> str:
    if working := _working(gpus):
        return outcome_of_working(working, sum(gpu.worked is None for gpu in gpus), expectation.count)
    if expectation.count == 0 and not any(gpu.is_occupied for gpu in gpus):
        return NO_GPU_EXPECTED
    if telemetry.nvml in (NvmlState.FAILED, NvmlState.NOT_QUERIED) or any(gpu.worked is None for gpu in gpus):
        return UNKNOWN
    if any(gpu.is_occupied for gpu in gpus):
        return OCCUPIED
    return IDLE if any(gpu.touched for gpu in gpus) else CPU_ONLY


def _requirement_met(
    expectation: Expectation, telemetry: Telemetry, gpus: Sequence[GpuVerdict]
) -> bool | None:
    working = _working(gpus)
    if not expectation.required or working >= expectation.count:
        return True
    if telemetry.nvml in (NvmlState.FAILED, NvmlState.NOT_QUERIED):
        return None
    unclear = sum(gpu.worked is None for gpu in gpus)
    return None if working + unclear >= expectation.count else False


def _reason(
    outcome: str,
    expectation: Expectation,
    telemetry: Telemetry,
    gpus: Sequence[GpuVerdict],
    steps: Steps | None,
) -> str:
    if _working(gpus):
        return used_reason(expectation, gpus, steps)
    if outcome == OCCUPIED:
        return "; ".join(gaps(gpus)) + "."
    if outcome == IDLE:
        held = [gpu for gpu in gpus if gpu.touched]
        busy, time = sum(gpu.busy_s for gpu in held), sum(gpu.held_s for gpu in held)
        return (
            f"The job opened {gpu_list([gpu.index for gpu in held])} and did almost no work there: "
            f"{format_duration(busy)} of work in {format_duration(time)}."
        )
    if outcome == CPU_ONLY:
        return f"{_absence(telemetry, gpus)} The job ran on the CPU only."
    if outcome == NO_GPU_EXPECTED:
        if telemetry.nvml == NvmlState.AVAILABLE and gpus:
            return "No GPU was expected and none was used."
        if telemetry.nvml in (NvmlState.MISSING, NvmlState.AVAILABLE):
            return "No GPU was expected and this machine has none: the job ran on the CPU."
        return "No GPU was expected, and this machine's GPUs could not be read."
    return f"Unknown whether the job used its GPU: {_doubt(telemetry, gpus)}."


def _absence(telemetry: Telemetry, gpus: Sequence[GpuVerdict]) -> str:
    if telemetry.nvml == NvmlState.MISSING:
        return "No usable GPU: the NVIDIA driver is not installed."
    if not gpus:
        return "The NVIDIA driver is installed but finds no GPU."
    others = [gpu.index for gpu in gpus if gpu.others_present]
    if others:
        return f"{gpu_list(others)} was used by a process of another job, and this job never opened a GPU."
    return "No process of the job opened a GPU."


def _doubt(telemetry: Telemetry, gpus: Sequence[GpuVerdict]) -> str:
    if telemetry.nvml_reason:
        return telemetry.nvml_reason
    unclear = [gpu for gpu in gpus if gpu.worked is None]
    if unclear:
        return f"{gpu_list([gpu.index for gpu in unclear])}: {unclear[0].why}"
    return "no sample was taken"


def _remedy(outcome: str, gpus: Sequence[GpuVerdict]) -> str | None:
    if outcome == CPU_ONLY and gpus:
        if gpus and all(gpu.hidden for gpu in gpus):
            return "CUDA_VISIBLE_DEVICES hides every GPU from the job: unset it."
        return (
            "Check the framework in the job's own environment: torch.cuda.is_available(), or "
            'tf.config.list_physical_devices("GPU"). Both report no GPU for a CPU-only build and for a driver too old for CUDA.'
        )
    if outcome == OCCUPIED:
        kinds = {gpu.activity.kind for gpu in gpus if gpu.activity is not None}
        return next(remedy for kind, remedy in _OCCUPIED_REMEDIES.items() if kind in kinds)
    if outcome == IDLE:
        return "Check that the model and its batches are on the GPU: model.device, .to(device), tf.debugging.set_log_device_placement(True)."
    return None


def _notes(expectation: Expectation, telemetry: Telemetry, gpus: Sequence[GpuVerdict]) -> list[str]:
    notes: list[str] = []
    if telemetry.nvml == NvmlState.AVAILABLE and len(gpus) < expectation.count:
        notes.append(f"{pluralize(expectation.count, 'GPU')} expected, and this machine has {len(gpus)}.")
    notes += _name_note(expectation, gpus)
    hidden = [gpu.index for gpu in gpus if gpu.hidden]
    if hidden:
        notes.append(f"CUDA_VISIBLE_DEVICES={telemetry.visible_devices} hid {gpu_list(hidden)} from the job.")
    if any(gpu.judged_by == BY_DEVICE for gpu in gpus):
        notes.append(_device_note(gpus, telemetry))
    notes += _doubtful_work(gpus)
    shared = [gpu.index for gpu in gpus if gpu.others_present and gpu.touched]
    if shared:
        notes.append(f"Another process used {gpu_list(shared)} too; memory and power count for both.")
    for gpu, seen in zip(gpus, telemetry.gpus):
        if seen.lost_at_s is not None:
            after = format_duration(seen.lost_at_s)
            notes.append(f"GPU {gpu.index} could not be read after {after}: {seen.error}.")
        elif gpu.worked is None and gpu.why:
            notes.append(f"GPU {gpu.index} cannot be judged: {gpu.why}.")
    return notes + [f"Monitoring: {problem}." for problem in telemetry.problems]


def _doubtful_work(gpus: Sequence[GpuVerdict]) -> list[str]:
    """GPUs that count as used, and probably did little: each sentence once."""
    said: dict[str, list[int]] = {}
    for gpu in gpus:
        if gpu.worked and gpu.activity is not None and gpu.activity.is_doubtful:
            said.setdefault(gpu.activity.sentence, []).append(gpu.index)
    return [
        f"{gpu_list(indexes)}: {sentence}; the measurements here cannot tell for certain."
        for sentence, indexes in said.items()
    ]


def _device_note(gpus: Sequence[GpuVerdict], telemetry: Telemetry) -> str:
    """How GPUs were judged whose processes cannot be matched with the job's."""
    unmatched = "NVML lists no process here that can be matched with the job's, as in a container"
    if any(gpu.why for gpu in gpus):
        return f"{unmatched}."
    before = (
        "The devices were in use when the job began; their memory and utilization since then decided."
        if any(taken_before(seen) for gpu, seen in zip(gpus, telemetry.gpus) if gpu.judged_by == BY_DEVICE)
        else "No other process used the devices when the job began."
    )
    return f"Judged by the devices' own counters: {unmatched}. {before}"


def _name_note(expectation: Expectation, gpus: Sequence[GpuVerdict]) -> list[str]:
    wanted = expectation.gpu_name
    names = sorted({gpu.name for gpu in gpus if gpu.name})
    if not wanted or not names or any(_plain(wanted) in _plain(name) for name in names):
        return []
    return [f"{wanted} expected ({expectation.because}), and this machine has {', '.join(names)}."]


def _plain(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _working(gpus: Sequence[GpuVerdict]) -> int:
    return sum(gpu.worked is True for gpu in gpus)
