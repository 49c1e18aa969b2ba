"""Model FLOPs utilization: the FLOPs of the model's steps per second, as a share of the peak of the GPUs that worked.

Source: Chowdhery et al., PaLM: Scaling Language Modeling with Pathways, 2022, appendix B (https://arxiv.org/abs/2204.02311): the FLOPs that
the model needs, without those that are computed again to save memory, over the peak without sparsity.

`data/peak_flops.csv` has the peaks by the GPU's name in NVML; it is written from the catalogue (`tools/build_peak_flops.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from gpuproof.agent.job import PlannedFlops
from gpuproof.agent.verdict.evidence import Mfu
from gpuproof.agent.verdict.schema import GpuVerdict
from gpuproof.util.csv_table import read_package_rows

PLAN, SCRIPT = "plan", "script"
"""Sources of the FLOPs: `gpuproof plan`, and `log_throughput` in the script; any other is a framework's own count."""

_PRECISIONS = {
    "bfloat16": ("bf16", "amp-bfloat16", "mixed_bfloat16", "torch.bfloat16"),
    "float16": ("fp16", "half", "amp-float16", "mixed_float16", "torch.float16"),
    "float8": ("fp8", "float8_e4m3fn", "float8_e5m2"),
    "tf32": ("tensorfloat32", "tensor-float-32"),
    "float32": ("fp32", "torch.float32"),
}
_NOT_TRAINING = ("evaluation", "checkpoint")


class _Rate(NamedTuple):
    """FLOPs of the ranks of one host: of a step of all of them, and the mean time of a step in seconds."""

    flops_per_step: float
    step_s: float
    source: str


def host_mfu(
    gpus: Sequence[GpuVerdict],
    counts: Iterable[Mapping[str, Any]],
    steps: Iterable[Mapping[str, Any]],
    planned: PlannedFlops | None = None,
    hosts: int = 1,
) -> Mfu | None:
    """The utilization of one host's GPUs; `None` if the FLOPs, their precision, the time of a step or a GPU's peak is unknown.

    The FLOPs are those that the script reports, or else those of `gpuproof plan`, or else the framework's own count.

    Args:
        counts: what `gpuproof.runtime.log_throughput` wrote, a document for each process.
        steps: what the step hooks wrote, likewise.
        planned: what `gpuproof plan` found of the script.
        hosts: of the job, each with as many ranks as this one.
    """
    counts, steps = [*filter(_is_count, counts)], [*filter(_is_steps, steps)]
    working = [gpu for gpu in gpus if gpu.worked]
    if _is_incomplete(counts, steps, len(working)):
        counts = []
    rate = _of_script(counts) or _of_plan(counts, steps, planned, hosts) or _of_framework(steps)
    if rate is None or not working:
        return None
    found = _precision(counts, steps, planned)
    if found is None:
        return None
    precision, is_certain = found
    peaks = [_peak(gpu.name, precision) for gpu in working]
    known = [peak for peak in peaks if peak is not None]
    if len(known) < len(peaks):
        return None
    peak = sum(known)
    share = rate.flops_per_step / rate.step_s / peak
    # More than the peak: the FLOPs, or the GPU's name, cannot be right.
    if not 0 < share <= 1:
        return None
    return Mfu(share, rate.flops_per_step, rate.step_s, peak, precision, rate.source, not is_certain)


def job_mfu(hosts: Sequence[Mfu | None]) -> Mfu | None:
    """The utilization of a job's GPUs; `None` unless that of each host is known, from one source and in one precision.

    Args:
        hosts: those on which a GPU worked.
    """
    known = [host for host in hosts if host is not None]
    if len(known) < len(hosts) or len({(host.source, host.precision) for host in known}) != 1:
        return None
    first, peak = known[0], sum(host.peak_flops for host in known)
    flops_per_s = sum(host.flops_per_step / host.step_s for host in known)
    flops = sum(host.flops_per_step for host in known)
    is_bound = any(host.lower_bound for host in known)
    return Mfu(flops_per_s / peak, flops, flops / flops_per_s, peak, first.precision, first.source, is_bound)


def _is_incomplete(
    counts: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]], gpus: int
) -> bool:
    """Whether not every rank counts its examples: many scripts log on the first rank only."""
    ranks = len(_by_rank(counts))
    has_launcher = any(isinstance(count.get("rank"), int) for count in counts)
    return 0 < ranks < len(_by_rank(steps)) or (has_launcher and ranks < gpus)


def _of_script(counts: Sequence[Mapping[str, Any]]) -> _Rate | None:
    """The FLOPs that each rank reports, over the time from the first counted step of any to the last."""
    if not counts or not all(_is_positive(count.get("flops")) for count in counts):
        return None
    ranks = _by_rank(counts)
    flops = sum(
        sum(document["flops"] for document in same) / sum(document["calls"] - 1 for document in same)
        for same in ranks
    )
    seconds = max(count["last"] for count in counts) - min(count["first"] for count in counts)
    total = sum(count["flops"] for count in counts)
    return _Rate(flops, seconds * flops / total, SCRIPT)


def _of_plan(
    counts: Sequence[Mapping[str, Any]],
    steps: Sequence[Mapping[str, Any]],
    planned: PlannedFlops | None,
    hosts: int,
) -> _Rate | None:
    """The planned FLOPs of an example by the examples per second, or else those of a step by the steps per second."""
    if planned is None or planned.flops <= 0:
        return None
    if counts and planned.examples:
        ranks = len(_by_rank(counts))
        examples = sum(count["examples"] - count["first_examples"] for count in counts)
        seconds = max(count["last"] for count in counts) - min(count["first"] for count in counts)
        return _Rate(planned.flops * ranks, planned.examples * ranks * seconds / examples, PLAN)
    ranks = len(_by_rank(steps))
    # A script may divide its batch by the number of ranks.
    if not ranks or ranks * hosts != planned.gpus:
        return None
    return _rate([(planned.flops, same) for same in _by_rank(steps)], PLAN)


def _of_framework(steps: Sequence[Mapping[str, Any]]) -> _Rate | None:
    if not steps or not all(_is_positive(document.get("flops_per_step")) for document in steps):
        return None
    names = {str(document.get("flops_source") or document.get("loop")) for document in steps}
    if len(names) != 1:
        return None
    return _rate([(same[-1]["flops_per_step"], same) for same in _by_rank(steps)], names.pop())


def _rate(ranks: Sequence[tuple[float, Sequence[Mapping[str, Any]]]], source: str) -> _Rate | None:
    """Steps of each rank by their mean time, without evaluation and checkpoints, which are no steps of the model's training."""
    times = [
        sum(_training_seconds(document) for document in same) / sum(document["steps"] for document in same)
        for _, same in ranks
    ]
    if not all(time > 0 for time in times):
        return None
    flops = sum(flops for flops, _ in ranks)
    per_second = sum(flops / time for (flops, _), time in zip(ranks, times))
    return _Rate(flops, flops / per_second, source)


def _training_seconds(document: Mapping[str, Any]) -> float:
    phases = document.get("phases")
    others = [phases.get(name) for name in _NOT_TRAINING] if isinstance(phases, Mapping) else []
    return document["seconds"] - sum(other for other in others if isinstance(other, (int, float)))


def _by_rank(documents: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The documents with one list for each rank, which several processes have if the launcher restarts them."""
    ranks: dict[object, list[Mapping[str, Any]]] = {}
    for number, document in enumerate(documents):
        rank = document.get("rank")
        ranks.setdefault(rank if isinstance(rank, int) else f"process {number}", []).append(document)
    return list(ranks.values())


def _precision(
    counts: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]], planned: PlannedFlops | None
) -> tuple[str, bool] | None:
    """The precision, and whether it is certain: what the script says, what it was seen to use, or what was planned."""
    said, seen = (
        {str(name) for document in documents if (name := document.get("precision"))}
        for documents in (counts, steps)
    )
    names = {_named(name) for name in said or seen or (() if planned is None else (planned.precision,))}
    found = next(iter(names)) if len(names) == 1 else None
    if found is None:
        return None
    # Whether float32 is computed as TF32 is a setting of the process: the higher peak is a bound, unless the script names it.
    return ("tf32", False) if found == "float32" and not said else (found, True)


def _named(precision: object) -> str | None:
    text = str(precision).lower()
    return next((name for name, others in _PRECISIONS.items() if text == name or text in others), None)


def _peak(gpu: str | None, precision: str) -> float | None:
    """The dense peak of a GPU in FLOP/s; `None` for an unknown GPU, a part of one, and a precision that it has no units for."""
    peaks = _peaks().get(_model(gpu or ""))
    if peaks is None:
        return None
    # Without TF32, such operations are those of float32.
    return peaks.get(precision) or (peaks.get("float32") if precision == "tf32" else None)


def _model(name: str) -> str:
    """The name without the brand, which drivers have changed, in lower case."""
    return re.sub(r"^(nvidia |tesla )+", "", name.lower())


@cache
def _peaks() -> Mapping[str, Mapping[str, float]]:
    rows = read_package_rows("gpuproof.agent.verdict", "data/peak_flops.csv")
    return {row["gpu"]: {name: float(row[name]) * 1e12 for name in _PRECISIONS if row[name]} for row in rows}


def _is_count(document: Mapping[str, Any]) -> bool:
    """Whether a process has counted at least two steps; the script may have written anything."""
    names = ("examples", "first_examples", "first", "last", "calls")
    if not all(_is_number(document.get(name)) for name in names):
        return False
    has_more = document["examples"] > document["first_examples"]
    return has_more and document["last"] > document["first"] and document["calls"] > 1


def _is_steps(document: Mapping[str, Any]) -> bool:
    return _is_positive(document.get("steps")) and _is_positive(document.get("seconds"))


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
