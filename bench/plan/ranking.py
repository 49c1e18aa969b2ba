"""How often the best GPU is among the first that plans recommend, of those on which the same work was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from bench.plan.fit import Row
from bench.plan.time_accuracy import Pair, calibrated, data_sheet, one_anchor

from gpuproof.catalogue import Catalogue

Work = tuple[object, ...]
"""What was done: the same for all GPUs on which it was measured."""
Option = tuple[str, float, float]
"""A GPU, and its measured and predicted seconds for a unit of the work, multiplied by its GPUs."""
_FIRST = 2
_ENOUGH = 3
"""GPUs, so that being among the first two says something."""


def ranking_accuracy(rows: Sequence[Row], catalogue: Catalogue) -> dict[str, Any]:
    """Of each tier, by cost and by time: whether the best is first, or among the first two of three, and what the choice costs more.

    Language models count by token, because the measured batch sizes differ; of several batch sizes on a GPU, its fastest is taken, as it was
    measured. Prices are those of the instances with the lowest price for a GPU.

    Args:
        rows: measured.
        catalogue: with prices.
    """
    own = list(calibrated(rows))
    by_anchor: dict[str, list[Pair]] = defaultdict(list)
    for anchor, pair in one_anchor(rows):
        by_anchor[anchor].append(pair)
    # Who knows one GPU knows its own steps, too.
    anchored = {
        anchor: [*pairs, *(pair for pair in own if pair[0].step.gpu.name == anchor)]
        for anchor, pairs in by_anchor.items()
    }
    tiers = {
        "calibrated": list(_options(own)),
        "one-anchor": [option for pairs in anchored.values() for option in _options(pairs)],
        "data-sheet": list(_options(list(data_sheet(rows)))),
    }
    prices = gpu_prices(catalogue)
    return {
        tier: {
            "cost": _judge([_priced(options, prices) for options in found]),
            "time": _judge(found),
        }
        for tier, found in tiers.items()
    }


def gpu_prices(catalogue: Catalogue) -> dict[str, float]:
    """USD an hour of one GPU, on demand on EC2 in us-east-1, by the instance that asks least for it."""
    found: dict[str, float] = {}
    for instance in catalogue.tables.gpu_instances.values():
        price = catalogue.price(instance.name, "us-east-1")
        if instance.gpu_model and instance.fraction == 1 and price is not None:
            each = price.usd_per_hour / instance.gpu_count
            found[instance.gpu_model] = min(each, found.get(instance.gpu_model, each))
    return found


def _options(pairs: Sequence[Pair]) -> Iterator[list[Option]]:
    """The GPUs of each work that was measured on several."""
    groups: dict[Work, dict[str, Option]] = defaultdict(dict)
    for row, predicted in pairs:
        step = row.step
        scale = step.gpus * step.hosts / step.units
        option = (step.gpu.name, row.seconds * scale, predicted * scale)
        known = groups[step.work].setdefault(step.gpu.name, option)
        if option[1] < known[1]:
            groups[step.work][step.gpu.name] = option
    yield from (list(options.values()) for options in groups.values() if len(options) > 1)


def _priced(options: Sequence[Option], prices: Mapping[str, float]) -> list[Option]:
    return [
        (gpu, measured * prices[gpu], predicted * prices[gpu])
        for gpu, measured, predicted in options
        if gpu in prices
    ]


def _judge(works: Sequence[Sequence[Option]]) -> dict[str, Any]:
    first: list[bool] = []
    among: list[bool] = []
    excess: list[float] = []
    for options in works:
        if len(options) < 2:
            continue
        best = min(options, key=lambda option: option[1])
        ranked = sorted(options, key=lambda option: option[2])
        first.append(ranked[0] is best)
        excess.append(ranked[0][1] / best[1] - 1)
        if len(options) >= _ENOUGH:
            among.append(best in ranked[:_FIRST])
    return {
        "works": len(first),
        "best_is_first": _share(first),
        "works_on_three_or_more": len(among),
        "best_is_among_first_two": _share(among),
        "median_excess": round(median(excess), 4) if excess else None,
        "largest_excess": round(max(excess), 4) if excess else None,
    }


def _share(hits: Sequence[bool]) -> float | None:
    return round(sum(hits) / len(hits), 4) if hits else None
