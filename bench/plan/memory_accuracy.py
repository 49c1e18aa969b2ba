"""Errors of the memory estimates: predicted with the context and the spread of the other models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from bench.plan import tables
from bench.plan.measured_steps import stored_trace

from gpuproof.catalogue import Catalogue, Gpu
from gpuproof.planning.coefficients import Coefficients, builtin_coefficients, usable_memory
from gpuproof.planning.memory import Replay, estimate_memory, fit, replay
from gpuproof.planning.scaling import scaled
from gpuproof.trace.document import Trace

FOLDS = 5
GPU = "A100-40GB"
_BATCHES = (8, 16, 32, 64, 128)
_BASE = 32
MIB = 1 << 20


@dataclass(frozen=True)
class Peak:
    """A model at a batch size.

    Args:
        model: of timm.
        batch: samples.
        trace: of that batch.
        free: its replay without limit.
        measured: bytes that nvidia-smi showed; None if the run failed.
        extrapolated: bytes that the smaller batches of a failed run lead to.
    """

    model: str
    batch: int
    trace: Trace
    free: Replay
    measured: int | None
    extrapolated: float | None = None


def peaks(measurements: Path, traces: Path) -> list[Peak]:
    """Those with a measurement, or with a failure that the smaller batches explain by the GPU's size."""
    found: list[Peak] = []
    for model, measured in sorted(tables.timm_memory(measurements).items()):
        first = stored_trace(traces / f"memory-{model}-{_BASE}.json")
        second = stored_trace(traces / f"memory-{model}-{2 * _BASE}.json")
        if first is None or second is None:
            continue
        for batch in _BATCHES:
            expected = None if batch in measured else _extrapolated(measured, batch)
            if batch in measured or (expected and expected > _capacity() * 1.02):
                trace = scaled(first, second, batch, base=_BASE)
                found.append(Peak(model, batch, trace, replay(trace.memory), measured.get(batch), expected))
    return found


def _extrapolated(measured: dict[int, int], batch: int) -> float:
    """On the line through the two largest batches."""
    (a, low), (b, high) = sorted(measured.items())[-2:]
    return high + (high - low) / (b - a) * (batch - b)


def _gpu() -> Gpu:
    return Catalogue.load().tables.gpus[GPU]


def _capacity() -> int:
    return usable_memory(_gpu())


def fit_memory(rows: Sequence[Peak]) -> dict[str, Any]:
    """The context, and limits between which 80 % of the measurements are.

    The context is the median of what nvidia-smi showed more than the replay reserved. Its limits are the quantiles of that for
    small models, and the factors those of large ones, where workspaces and fragmentation count more.
    """
    rest = sorted((row.measured - row.free.reserved) / MIB for row in rows if row.measured)
    value = median(rest)
    low, high = _quantile(rest, 0.2), _quantile(rest, 0.8)
    ratios_low = sorted((row.measured - low * MIB) / row.free.reserved for row in rows if row.measured)
    ratios_high = sorted((row.measured - high * MIB) / row.free.reserved for row in rows if row.measured)
    spread = [min(1.0, _quantile(ratios_low, 0.1)), max(1.0, _quantile(ratios_high, 0.9))]
    context = [round(low), round(value), round(high)]
    return {"context_mib": {GPU: context}, "spread": [round(limit, 3) for limit in spread]}


def _quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def memory_accuracy(rows: Sequence[Peak]) -> dict[str, Any]:
    """Median, p90 and bias of the errors, coverage of the intervals, and how often the verdict is right."""
    models = sorted({row.model for row in rows})
    Random(1).shuffle(models)
    errors: list[float] = []
    inside: list[bool] = []
    verdicts: list[tuple[str, bool]] = []
    for fold in range(FOLDS):
        held = set(models[fold::FOLDS])
        known = _coefficients([row for row in rows if row.model not in held])
        for row in rows:
            if row.model in held:
                _judge(row, known, errors, inside, verdicts)
    return _summary(len(models), errors, inside, verdicts)


def _coefficients(rows: Sequence[Peak]) -> Coefficients:
    return builtin_coefficients().merged({"memory": fit_memory(rows)})


def _judge(
    row: Peak, known: Coefficients, errors: list[float], inside: list[bool], verdicts: list[tuple[str, bool]]
) -> None:
    roomy = _gpu()
    estimate = estimate_memory(row.trace, roomy, coefficients=known, unlimited=row.free)
    verdicts.append((fit(estimate, roomy).fit, row.measured is not None))
    if row.measured:
        required = estimate.required
        errors.append(required.value / row.measured - 1)
        inside.append(required.low <= row.measured <= required.high)


def _summary(
    models: int, errors: list[float], inside: list[bool], verdicts: list[tuple[str, bool]]
) -> dict[str, Any]:
    sizes = sorted(map(abs, errors))
    right = [(verdict != "does-not-fit") == ran for verdict, ran in verdicts]
    false_fits = sum(verdict == "fits" and not ran for verdict, ran in verdicts)
    said_fits = sum(verdict == "fits" for verdict, _ in verdicts)
    return {
        "models": models,
        "rows": len(errors),
        "median_error": round(median(sizes), 4),
        "p90_error": round(_quantile(sizes, 0.9), 4),
        "bias": round(median(errors), 4),
        "coverage": round(sum(inside) / len(inside), 3),
        "fit_rows": len(verdicts),
        "fit_rows_that_failed": sum(not ran for _, ran in verdicts),
        "fit_right": round(sum(right) / len(right), 4),
        "borderline": sum(verdict == "borderline" for verdict, _ in verdicts),
        "false_fits": false_fits,
        "false_fit_share": round(false_fits / max(1, said_fits), 4),
        "false_does_not_fit": sum(verdict == "does-not-fit" and ran for verdict, ran in verdicts),
    }
