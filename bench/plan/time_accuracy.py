"""Errors of the step times, by how the GPU's coefficients are known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from statistics import median
from typing import Any

from bench.plan import tables
from bench.plan.fit import SAME, Row, fit_default

from gpuproof.planning.calibration.regression import KINDS, fit_slowdowns, predict
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.time import operator_cost
from gpuproof.trace.document import Operator

FOLDS = 5
_PRIOR = dict.fromkeys(KINDS, 1.2)
Pair = tuple[Row, float]
"""A measured step and its prediction."""


def predictions(rows: Sequence[Row]) -> dict[str, list[Pair]]:
    """Predictions by tier, each by rows that do not belong to it.

    `calibrated`: of the same GPU and precision, but other models. `one-anchor`: of one other GPU at that precision, and only
    for models that were measured in the same kind of table. `data-sheet`: of all other GPUs and other models.
    """
    return {
        "calibrated": list(_calibrated(rows)),
        "one-anchor": list(_one_anchor(rows)),
        "data-sheet": list(_data_sheet(rows)),
    }


def _groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row.step.gpu.name, row.step.precision].append(row)
    return found


def _folds(rows: Sequence[Row]) -> list[set[str]]:
    """Models that are held out together; each alone if there are few."""
    models = sorted({row.step.model for row in rows})
    Random(1).shuffle(models)
    count = len(models) if len(models) <= 2 * FOLDS else FOLDS
    return [set(models[index::count]) for index in range(count)]


def _calibrated(rows: Sequence[Row]) -> Iterator[Pair]:
    for (gpu, precision), own in _groups(rows).items():
        others = [row for row in rows if row.step.gpu.name != gpu and row.step.precision == precision]
        for held in _folds(own):
            known = [row for row in own if row.step.model not in held]
            prior = fit_default([row for row in others if row.step.model not in held]) if others else _PRIOR
            slowdowns = fit_slowdowns(known, prior)
            yield from ((row, predict(row, slowdowns)) for row in own if row.step.model in held)


def _one_anchor(rows: Sequence[Row]) -> Iterator[Pair]:
    groups = _groups(rows)
    for (gpu, precision), own in groups.items():
        for (other, same), anchor in groups.items():
            if other == gpu or same != precision:
                continue
            tables_ = {row.step.table for row in anchor}
            slowdowns = fit_slowdowns(anchor, _PRIOR)
            yield from ((row, predict(row, slowdowns)) for row in own if row.step.table in tables_)


def _data_sheet(rows: Sequence[Row]) -> Iterator[Pair]:
    for (gpu, precision), own in _groups(rows).items():
        twins = {gpu, SAME.get(gpu), *(name for name, other in SAME.items() if other == gpu)}
        twins |= {"A100-40GB", "A100-80GB"} if gpu.startswith("A100") else set[str]()
        others = [row for row in rows if row.step.gpu.name not in twins and row.step.precision == precision]
        for held in _folds(own):
            slowdowns = fit_default([row for row in others if row.step.model not in held])
            yield from ((row, predict(row, slowdowns)) for row in own if row.step.model in held)


def anchored(pairs: Sequence[Pair]) -> list[Pair]:
    """Predictions from the data sheet that are multiplied half-way (geometrically) to where one measured step of another model is met.

    That is what one own measurement on a GPU is worth; half-way, because a model differs from others too. Each model of the same
    GPU, precision and table is the anchor in turn, at most ten.
    """
    groups: dict[tuple[str, str, str], list[Pair]] = defaultdict(list)
    for row, value in pairs:
        groups[row.step.gpu.name, row.step.precision, row.step.table].append((row, value))
    found: list[Pair] = []
    for group in groups.values():
        anchors = Random(2).sample(group, min(10, len(group)))
        for anchor, predicted in anchors:
            factor = (anchor.step.seconds / predicted) ** 0.5
            found += [(row, value * factor) for row, value in group if row.step.model != anchor.step.model]
    return found


def spreads(pairs: dict[str, list[Pair]]) -> dict[str, list[float]]:
    """Factors between which 80 % of the measurements are, by tier; wide enough for the prediction itself."""
    found: dict[str, list[float]] = {}
    for tier, own in pairs.items():
        ratios = sorted(row.step.seconds / value for row, value in own)
        found[tier] = [
            round(min(1.0, _quantile(ratios, 0.1)), 3),
            round(max(1.0, _quantile(ratios, 0.9)), 3),
        ]
    return found


def _quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def time_accuracy(pairs: dict[str, list[Pair]]) -> dict[str, Any]:
    """Median, p90, bias and coverage by tier and table; a model's coverage is that of the other models' limits."""
    result: dict[str, Any] = {}
    for tier, own in pairs.items():
        by_table: dict[str, list[Pair]] = defaultdict(list)
        for row, value in own:
            by_table[f"{row.step.table} {row.step.gpu.name} {row.step.precision}"].append((row, value))
        result[tier] = {
            **_errors(own),
            "coverage": _coverage(own),
            "tables": {name: _errors(part) for name, part in sorted(by_table.items())},
        }
    return result


def _errors(pairs: Sequence[Pair]) -> dict[str, float]:
    errors = [value / row.step.seconds - 1 for row, value in pairs]
    sizes = sorted(map(abs, errors))
    return {
        "rows": len(errors),
        "median_error": round(median(sizes), 4),
        "p90_error": round(_quantile(sizes, 0.9), 4),
        "bias": round(median(errors), 4),
    }


def _coverage(pairs: Sequence[Pair]) -> float:
    inside = 0
    for held in _folds([row for row, _ in pairs]):
        low, high = spreads({"": [pair for pair in pairs if pair[0].step.model not in held]})[""]
        inside += sum(
            low * value <= row.step.seconds <= high * value for row, value in pairs if row.step.model in held
        )
    return round(inside / len(pairs), 3)


def operator_accuracy(
    rows: Sequence[tables.OperatorTime], devices: dict[str, Any], known: Coefficients
) -> dict[str, dict[str, float]]:
    """Errors of NeuSight's single operators in FP32, on which the shares were fitted: two or three numbers for hundreds of rows.

    Args:
        rows: measured.
        devices: GPUs with the rates of the measured variant, by the table's names.
        known: the coefficients.
    """
    errors: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        gpu = devices.get(row.device)
        if gpu is None:
            continue
        operator = _operator(row)
        seconds = operator_cost(operator, gpu, "torch", known).seconds
        errors[f"{gpu.name} {operator.kind}"].append(seconds / row.seconds - 1)
    return {
        name: {
            "rows": len(values),
            "median_error": round(median(map(abs, values)), 4),
            "bias": round(median(values), 4),
        }
        for name, values in sorted(errors.items())
    }


def _operator(row: tables.OperatorTime) -> Operator:
    if row.name in ("bmm", "linear"):
        b, m, n, k = row.shape
        kind = "bmm" if row.name == "bmm" else "gemm"
        size = 4.0 * b * (m * k + k * n + m * n)
        return Operator(row.name, kind, "float32", "forward", 2.0 * b * m * n * k, size, 1, (), 1, row.shape)
    count = 4.0 * row.shape[0] * row.shape[1]
    kind = {"ln": "norm", "softmax": "softmax"}.get(row.name, "elementwise")
    tensors = 3 if row.name in ("add", "mul", "div") else 2
    return Operator(row.name, kind, "float32", "forward", 0.0, count * tensors, 1, (), 1)
