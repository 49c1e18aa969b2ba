"""What launches cost the host: small batches of NVIDIA's ConvNets take as long as their launches, however fast the GPU is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench.plan import tables
from bench.plan.measured_steps import stored_trace

_SMALL, _LARGER = 1, 4
"""Batch sizes whose latencies hardly differ where launches bound them."""
_SAME = 1.1


@dataclass(frozen=True)
class Launches:
    """A model whose launches bound its inference.

    Args:
        model: of timm.
        gpu: of the catalogue.
        calls: operators of a step.
        seconds: of a step, at a batch size of one.
    """

    model: str
    gpu: str
    calls: int
    seconds: float


def measured_launches(measurements: Path, traces: Path) -> list[Launches]:
    """Models in FP32 that take as long with four samples as with one. Casts of mixed precision depend on what autocast caches."""
    times: dict[tuple[str, str], dict[int, float]] = {}
    for row in tables.nvidia_convnets(measurements, batches=(_SMALL, _LARGER)):
        if row.mode == "inference" and row.precision == "float32":
            times.setdefault((row.model, row.gpu), {})[row.batch] = row.seconds * row.batch
    found: list[Launches] = []
    for (model, gpu), by_batch in sorted(times.items()):
        trace = stored_trace(traces / f"convnet-inference-{model}-float32.json")
        if trace and by_batch.keys() == {_SMALL, _LARGER} and by_batch[_LARGER] < _SAME * by_batch[_SMALL]:
            calls = sum(operator.calls for operator in trace.operators if operator.kernels)
            found.append(Launches(model, gpu, calls, by_batch[_SMALL]))
    return found


def fit_launches(rows: Sequence[Launches]) -> dict[str, Any]:
    """Seconds of a call, and limits of a launch-bound step.

    Those of the fastest kind of host: the others are from 2017 and 2018, and today's are not slower. The lower limit allows for half of that.
    """
    by_gpu: dict[str, list[float]] = {}
    for row in rows:
        by_gpu.setdefault(row.gpu, []).append(row.seconds / row.calls)
    value = min(median(values) for values in by_gpu.values())
    highest = max(row.seconds / row.calls for row in rows)
    return {"host_s_per_call": round(value, 7), "launch_spread": [0.5, round(highest / value, 2)]}


def launch_accuracy(rows: Sequence[Launches]) -> dict[str, Any]:
    """Errors of each model by the others, and what a call takes on the host of each GPU."""
    errors: list[float] = []
    for row in rows:
        known = fit_launches([launches for launches in rows if launches.model != row.model])
        errors.append(row.calls * known["host_s_per_call"] / row.seconds - 1)
    return {
        "rows": len(rows),
        "median_error": round(median(map(abs, errors)), 4),
        "bias": round(median(errors), 4),
        "microseconds_of_a_call": {
            gpu: round(1e6 * median(row.seconds / row.calls for row in rows if row.gpu == gpu), 1)
            for gpu in sorted({row.gpu for row in rows})
        },
    }
