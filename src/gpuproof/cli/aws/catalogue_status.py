"""`gpuproof catalogue status`: how old each part of the data about AWS is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gpuproof.catalogue.refresh.store import Store
    from gpuproof.catalogue.tables import Tables


class PartStatus(NamedTuple):
    """The age of one part.

    Attributes:
        part: as in `catalogue refresh --part`, or a part that only a release of GPUproof updates.
        shipped: the first and the last date of the shipped facts; None if nothing is shipped.
        refreshed: the first and the last date of a refresh; None without one.
        regions: how many regions were refreshed.
        days: since the last date of what is in use; None if there is nothing.
    """

    part: str
    shipped: tuple[str, str] | None
    refreshed: tuple[str, str] | None
    regions: int
    days: int | None


def read_status(tables: Tables, store: Store, today: date) -> list[PartStatus]:
    """The age of all parts, in the order of the report."""
    refreshed: dict[str, dict[str, str]] = {}
    for scope, as_of in store.as_of().items():
        refreshed.setdefault(scope.part, {})[scope.region] = as_of
    return [
        _status(part, dates, refreshed.get(part, {}), today) for part, dates in _shipped_dates(tables).items()
    ]


def _status(part: str, dates: Iterable[str], fresh: dict[str, str], today: date) -> PartStatus:
    shipped, read = _span(dates), _span(fresh.values())
    newest = read[1] if read else shipped[1] if shipped else None
    return PartStatus(part, shipped, read, len(fresh), _days(newest, today) if newest else None)


def _shipped_dates(tables: Tables) -> dict[str, Iterable[str]]:
    prices = [price for region in tables.priced_regions for price in tables.prices(region).rows.values()]
    return {
        "instances": (gpu_instance.as_of for gpu_instance in tables.gpu_instances.values()),
        "offerings": (offering.as_of for types in tables.offerings.values() for offering in types.values()),
        "ec2-prices": (
            price.as_of for price in prices if (price.service, price.market) == ("ec2", "on-demand")
        ),
        "spot-prices": (price.as_of for price in prices if price.market == "spot"),
        "sagemaker-prices": (price.as_of for price in prices if price.service == "sagemaker"),
        "storage-prices": (tier.as_of for tiers in tables.storage_prices.values() for tier in tiers),
        "quotas": (quota.as_of for quota in tables.quotas),
        "amis": (ami.as_of for ami in tables.amis),
        "images": (image.as_of for image in (*tables.images, *tables.huggingface_images)),
        "builds": (build.as_of for build in tables.builds),
        "cuda-drivers": (cuda_driver.as_of for cuda_driver in tables.cuda_drivers),
        "gpus": (gpu.as_of for gpu in tables.gpus.values()),
    }


def _span(dates: Iterable[str]) -> tuple[str, str] | None:
    found = sorted(dates)
    return (found[0], found[-1]) if found else None


def _days(as_of: str, today: date) -> int:
    year, month, day = (*map(int, as_of.split("-")), *(1, 1)[as_of.count("-") :])
    return max(0, (today - date(year, month, day)).days)


def table(parts: Iterable[PartStatus], folder: str) -> str:
    """The report as text."""
    from gpuproof.terminal.table import render_table

    rows = [
        [
            part.part,
            _text(part.shipped),
            _text(part.refreshed) if part.refreshed else "never",
            _regions(part),
            "-" if part.days is None else str(part.days),
        ]
        for part in parts
    ]
    text = render_table(["PART", "SHIPPED", "REFRESHED", "REGIONS", "DAYS OLD"], rows, right=[3, 4])
    return f"{text}\n\nRefreshed data is in {folder}. `gpuproof catalogue refresh` updates it."


def document(parts: Iterable[PartStatus], folder: str) -> dict[str, Any]:
    """The report as JSON."""
    return {"version": 1, "folder": folder, "parts": [part._asdict() for part in parts]}


def _regions(one: PartStatus) -> str:
    return "all" if one.part == "instances" and one.regions else str(one.regions or "-")


def _text(span: tuple[str, str] | None) -> str:
    return " to ".join(dict.fromkeys(span)) if span else "-"
