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
        "instances": (one.as_of for one in tables.gpu_instances.values()),
        "offerings": (one.as_of for types in tables.offerings.values() for one in types.values()),
        "ec2-prices": (one.as_of for one in prices if (one.service, one.market) == ("ec2", "on-demand")),
        "spot-prices": (one.as_of for one in prices if one.market == "spot"),
        "sagemaker-prices": (one.as_of for one in prices if one.service == "sagemaker"),
        "storage-prices": (one.as_of for tiers in tables.storage_prices.values() for one in tiers),
        "quotas": (one.as_of for one in tables.quotas),
        "amis": (one.as_of for one in tables.amis),
        "images": (one.as_of for one in (*tables.images, *tables.huggingface_images)),
        "builds": (one.as_of for one in tables.builds),
        "cuda-drivers": (one.as_of for one in tables.cuda_drivers),
        "gpus": (one.as_of for one in tables.gpus.values()),
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
            one.part,
            _text(one.shipped),
            _text(one.refreshed) if one.refreshed else "never",
            _regions(one),
            "-" if one.days is None else str(one.days),
        ]
        for one in parts
    ]
    text = render_table(["PART", "SHIPPED", "REFRESHED", "REGIONS", "DAYS OLD"], rows, right=[3, 4])
    return f"{text}\n\nRefreshed data is in {folder}. `gpuproof catalogue refresh` updates it."


def document(parts: Iterable[PartStatus], folder: str) -> dict[str, Any]:
    """The report as JSON."""
    return {"version": 1, "folder": folder, "parts": [one._asdict() for one in parts]}


def _regions(one: PartStatus) -> str:
    return "all" if one.part == "instances" and one.regions else str(one.regions or "-")


def _text(span: tuple[str, str] | None) -> str:
    return " to ".join(dict.fromkeys(span)) if span else "-"
