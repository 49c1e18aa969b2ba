"""The corrections that follow from the history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any, cast

from gpuproof.planning.correction import Correction, Quantity, correction
from gpuproof.planning.estimates import Tier

_QUANTITIES: tuple[Quantity, ...] = ("memory", "time")


def corrections(comparisons: Sequence[Mapping[str, Any]]) -> tuple[Correction, ...]:
    """Corrections for each GPU with five cases, and for each tier of time, and memory of all GPUs.

    A script with its arguments is one case on a GPU, however often it ran: the median of its runs.

    Args:
        comparisons: of the history.
    """
    found: list[Correction | None] = []
    for quantity in _QUANTITIES:
        cases = _cases(comparisons, quantity)
        by_gpu: dict[tuple[str | None, Tier | None], list[float]] = defaultdict(list)
        for (gpu, tier), ratios in cases.items():
            by_gpu[gpu, tier] += ratios
            by_gpu[None, tier] += ratios
        found += [correction(quantity, ratios, gpu=gpu, tier=tier) for (gpu, tier), ratios in by_gpu.items()]
    return tuple(value for value in found if value is not None)


def _cases(
    comparisons: Sequence[Mapping[str, Any]], quantity: Quantity
) -> dict[tuple[str, Tier | None], list[float]]:
    runs: dict[tuple[str, Tier | None, str], list[float]] = defaultdict(list)
    for comparison in comparisons:
        value = comparison.get(quantity)
        if value is None or value["built_in"][1] <= 0 or value["measured"] <= 0:
            continue
        tier = cast("Tier", comparison["tier"]) if quantity == "time" else None
        runs[comparison["gpu"], tier, comparison["key"]].append(value["measured"] / value["built_in"][1])
    found: dict[tuple[str, Tier | None], list[float]] = defaultdict(list)
    for (gpu, tier, _), ratios in runs.items():
        found[gpu, tier].append(median(ratios))
    return found
