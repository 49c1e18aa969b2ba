"""Errors of the step times, by how the GPU's coefficients are known."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random
from statistics import median
from typing import Any

from bench.plan import tables
from bench.plan.fit import SAME, TYPICAL, Row, fit_default

from gpuproof.planning.calibration.regression import KINDS, fit_slowdowns, predict
from gpuproof.planning.coefficients import Coefficients
from gpuproof.planning.time import operator_cost
from gpuproof.trace.document import Operator

FOLDS = 5
TIERS = ("calibrated", "one-anchor", "data-sheet")
"""Of estimates, the best first."""
_PRIOR = dict.fromkeys(KINDS, TYPICAL)
Pair = tuple[Row, float]
"""A measured step and its prediction."""


def predictions(rows: Sequence[Row]) -> dict[str, list[Pair]]:
    """Predictions by tier, each by rows that do not belong to it.

    `calibrated`: of the same GPU and precision, but other models. `one-anchor`: of one other GPU at that precision, and only
    for models that were measured in the same kind of table. `data-sheet`: of all other GPUs and other models.
    """
    return {
        "calibrated": list(calibrated(rows)),
        "one-anchor": [pair for _, pair in one_anchor(rows)],
        "data-sheet": list(data_sheet(rows)),
    }


def stricter(rows: Sequence[Row]) -> dict[str, list[Pair]]:
    """The same with less help: all models of a family are held out together, and anchors have another processor.

    The language models are of one family, so that for them nothing would be left to learn from.
    """
    images = [row for row in rows if row.step.table != "llm-foundry"]
    other = [
        pair for anchor, pair in one_anchor(rows) if _processor(anchor) != _processor(pair[0].step.gpu.name)
    ]
    return {
        "calibrated, image models by family": list(calibrated(images, lambda row: family(row.step.model))),
        "one-anchor of another processor": other,
        "data-sheet, image models by family": list(data_sheet(images, lambda row: family(row.step.model))),
    }


def family(model: str) -> str:
    """The family of a model of timm: `resnet` of `legacy_seresnet50`, `efficientnet` of `tf_efficientnetv2_b0`."""
    prefixes = r"^((tf|legacy|gluon|dm|nf|ig|ssl|swsl|ecase|eca|se|gc|sk|cs3se|cs3)_?)+"
    name = re.sub(prefixes + r"(?=[a-z]+net|resnext)", "", model)
    found = re.match(r"[a-z]+?(?=v?\d|_|$)", name)
    return found[0] if found else model


def _groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        found[row.step.gpu.name, row.step.precision].append(row)
    return found


def _processor(gpu: str) -> str:
    return "A100" if gpu.startswith("A100") else SAME.get(gpu, gpu)


def _model(row: Row) -> str:
    return row.step.model


def _folds(rows: Sequence[Row], key: Callable[[Row], str] = _model) -> list[set[str]]:
    """Models, or families, that are held out together; each alone if there are few."""
    models = sorted({key(row) for row in rows})
    Random(1).shuffle(models)
    count = len(models) if len(models) <= 2 * FOLDS else FOLDS
    return [set(models[index::count]) for index in range(count)]


def calibrated(rows: Sequence[Row], key: Callable[[Row], str] = _model) -> Iterator[Pair]:
    """By rows of the same GPU and precision that differ in the key."""
    for (gpu, precision), own in _groups(rows).items():
        others = [row for row in rows if row.step.gpu.name != gpu and row.step.precision == precision]
        for held in _folds(own, key):
            known = [row for row in own if key(row) not in held]
            prior = fit_default([row for row in others if key(row) not in held]) if others else _PRIOR
            slowdowns = fit_slowdowns(known, prior)
            yield from ((row, predict(row, slowdowns)) for row in own if key(row) in held)


def one_anchor(rows: Sequence[Row]) -> Iterator[tuple[str, Pair]]:
    """By one other GPU, which comes first, at that precision, and only for rows of tables that it is in."""
    groups = _groups(rows)
    for (gpu, precision), own in groups.items():
        for (other, same), anchor in groups.items():
            if other == gpu or same != precision:
                continue
            tables_ = {row.step.table for row in anchor}
            slowdowns = fit_slowdowns(anchor, _PRIOR)
            yield from ((other, (row, predict(row, slowdowns))) for row in own if row.step.table in tables_)


def data_sheet(rows: Sequence[Row], key: Callable[[Row], str] = _model) -> Iterator[Pair]:
    """By GPUs with other processors and rows that differ in the key."""
    for (gpu, precision), own in _groups(rows).items():
        others = [
            row
            for row in rows
            if _processor(row.step.gpu.name) != _processor(gpu) and row.step.precision == precision
        ]
        for held in _folds(own, key):
            slowdowns = fit_default([row for row in others if key(row) not in held])
            yield from ((row, predict(row, slowdowns)) for row in own if key(row) in held)


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
    """Factors between which at least 80 % of the measurements are, by tier; wide enough for the prediction itself.

    Args:
        pairs: by tier, the best first. A tier is as wide as the one before, which has other measurements, or wider.
    """
    found: dict[str, list[float]] = {}
    low = high = 1.0
    for tier, own in pairs.items():
        ratios = sorted(row.step.seconds / value for row, value in own)
        low, high = min(low, _quantile(ratios, 0.1)), max(high, _quantile(ratios, 0.9))
        found[tier] = [round(low, 3), round(high, 3)]
    return found


def _quantile(values: Sequence[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


def time_accuracy(pairs: dict[str, list[Pair]]) -> dict[str, Any]:
    """Median, p90, bias and coverage by tier and table; a model's coverage is that of the other models' limits."""
    result: dict[str, Any] = {}
    tiers: dict[str, list[Pair]] = {}
    for tier, own in pairs.items():
        if tier in TIERS:
            tiers[tier] = own
        by_table: dict[str, list[Pair]] = defaultdict(list)
        for row, value in own:
            by_table[f"{row.step.table} {row.step.gpu.name} {row.step.precision}"].append((row, value))
        result[tier] = {
            **_errors(own),
            "coverage": _coverage(dict(tiers) if tier in TIERS else {tier: own}),
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


def _coverage(pairs: dict[str, list[Pair]]) -> float:
    """Share of the last tier's measurements within its limits."""
    tier, own = list(pairs.items())[-1]
    inside = 0
    for held in _folds([row for row, _ in own]):
        others = {
            name: [pair for pair in part if pair[0].step.model not in held] for name, part in pairs.items()
        }
        low, high = spreads(others)[tier]
        inside += sum(
            low * value <= row.step.seconds <= high * value for row, value in own if row.step.model in held
        )
    return round(inside / len(own), 3)


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
