"""AWS regions: names, misspellings, and the nearest ones that meet a condition."""

from collections.abc import Collection, Mapping
from math import asin, cos, radians, sin, sqrt
from typing import NamedTuple

from gpuproof.util.spelling import nearest_words

EARTH_RADIUS_KM = 6371


class Region(NamedTuple):
    """An AWS region.

    Attributes:
        name: of its place, such as `Ireland`.
        latitude, longitude: approximately, in degrees.
    """

    region: str
    name: str
    latitude: float
    longitude: float
    source: str
    as_of: str


def misspelt(region: str, known: Collection[str]) -> str | None:
    """Returns the region that a misspelt one stands for; None if no region is near."""
    return next(iter(nearest_words(region, known, cutoff=0.7)), None)


def nearest_first(region: str, candidates: Collection[str], regions: Mapping[str, Region]) -> list[str]:
    """Sorts regions by their distance; those of unknown place come last.

    Regions of another partition (China, GovCloud) are left out: no account has both.
    """
    here = regions.get(region)
    near = [candidate for candidate in candidates if partition_of(candidate) == partition_of(region)]

    def key(name: str) -> tuple[float, str]:
        there = regions.get(name)
        return (distance_km(here, there) if here and there else float("inf"), name)

    return sorted(near, key=key)


def distance_km(one: Region, other: Region) -> float:
    """The great-circle distance, by the haversine formula."""
    latitude, other_latitude = radians(one.latitude), radians(other.latitude)
    north = sin((other_latitude - latitude) / 2) ** 2
    east = sin(radians(other.longitude - one.longitude) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * asin(sqrt(north + cos(latitude) * cos(other_latitude) * east))


def partition_of(region: str) -> str:
    """The AWS partition of a region, as the beginning of its regions' names; `aws` for the standard one."""
    return next((start for start in ("cn-", "us-gov-", "eusc-") if region.startswith(start)), "aws")
