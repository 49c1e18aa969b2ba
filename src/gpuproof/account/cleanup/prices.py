"""What the instances and the volumes of a resource cost, by the catalogue, and whether the instances have GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from gpuproof.account.cleanup.resource import Fleet, HourlyCost
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import JobKind, Market
from gpuproof.catalogue.storage_prices import Volume


def hourly_cost(
    catalogue: Catalogue,
    fleets: Iterable[Fleet],
    region: str,
    use: JobKind | None = None,
    market: Market = "on-demand",
) -> HourlyCost | None:
    """The price of all instances together; None if one of their prices is unknown.

    Args:
        use: the job kind on SageMaker; None on EC2.
        market: `spot` counts the on-demand price, marked as derived, where no spot price is known: it is the upper bound.
    """
    usd, derived = 0.0, False
    for fleet in fleets:
        price = catalogue.price(fleet.instance_type, region, use, market)
        if price is None and market == "spot":
            price, derived = catalogue.price(fleet.instance_type, region, use), True
        if price is None:
            return None
        usd += price.usd_per_hour * fleet.count
        derived |= price.kind == "derived"
    return HourlyCost(usd, derived)


def volumes_cost(catalogue: Catalogue, volumes: Iterable[Volume], region: str) -> HourlyCost | None:
    """The price of all volumes together; None if one of their prices is unknown."""
    usd, derived = 0.0, False
    for volume in volumes:
        price = catalogue.volume_price(volume, region)
        if price is None:
            return None
        usd += price.usd_per_hour
        derived |= price.is_derived
    return HourlyCost(usd, derived)


def has_gpu(catalogue: Catalogue, fleets: Iterable[Fleet]) -> bool:
    """Whether one of the types has a GPU, or is unknown, so that a GPU cannot be excluded."""
    found = [catalogue.instance(fleet.instance_type) for fleet in fleets]
    return any(match is None or match.gpu_count > 0 for match in found)
