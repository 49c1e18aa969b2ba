"""Compares refreshed rows with the shipped facts."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from gpuproof.catalogue import csv_rows as readers
from gpuproof.catalogue.csv_rows import Row
from gpuproof.catalogue.model import Instance
from gpuproof.catalogue.refresh.runner import Outcome
from gpuproof.catalogue.storage_prices import storage_price
from gpuproof.catalogue.tables import Tables

COMPARED = (
    "gpu_model",
    "gpu_count",
    "fraction",
    "gpu_memory",
    "vcpus",
    "memory",
    "arch",
    "efa_interfaces",
    "local_disk",
)
"""Fields of an instance whose changes are reported."""

_TOLERANCE = 0.0005
"""Share by which prices may differ: lists round differently."""


class Difference(NamedTuple):
    """One difference between AWS and the shipped facts."""

    part: str
    region: str
    text: str


def differences(shipped: Tables, outcomes: Iterable[Outcome]) -> list[Difference]:
    """Returns all differences, in the order of the outcomes. Quotas and AMI ids are never shipped, so not compared."""
    comparers: dict[str, Callable[[Tables, str, Sequence[Row]], list[str]]] = {
        "instances": lambda tables, _, rows: _instances(tables, rows),
        "offerings": _offerings,
        "ec2-prices": _prices,
        "sagemaker-prices": _prices,
        "storage-prices": _storage_prices,
    }
    return [
        Difference(outcome.scope.part, outcome.scope.region, text)
        for outcome in outcomes
        if outcome.rows is not None and outcome.scope.part in comparers
        for text in comparers[outcome.scope.part](shipped, outcome.scope.region, outcome.rows)
    ]


def _instances(shipped: Tables, rows: Sequence[Row]) -> list[str]:
    found = {row["instance_type"]: readers.gpu_instance(row) for row in rows}
    texts: list[str] = []
    for name, new in found.items():
        old = shipped.gpu_instances.get(name)
        if old is None or old.status == "retired":
            again = "new" if old is None else "available again, but shipped as retired"
            texts.append(f"{name}: {again}: {new.gpu_count} {new.gpu_model}")
        else:
            texts += _changed(old, new)
    missing = [
        instance.name
        for instance in shipped.gpu_instances.values()
        if instance.status == "offered" and instance.name not in found
    ]
    return [*texts, *(f"{name}: in none of the regions read" for name in missing)]


def _changed(old: Instance, new: Instance) -> list[str]:
    pairs = ((field, getattr(old, field), getattr(new, field)) for field in COMPARED)
    return [
        f"{old.name}: {field} {before} is now {after}" for field, before, after in pairs if before != after
    ]


def _offerings(shipped: Tables, region: str, rows: Sequence[Row]) -> list[str]:
    old = shipped.offerings.get(region, {})
    new = {row["instance_type"]: readers.offering(row) for row in rows}
    texts = [f"{name}: now offered" for name in new if name not in old]
    texts += [f"{name}: no longer offered" for name in old if name not in new]
    for name in old.keys() & new.keys():
        if set(old[name].az_ids) != set(new[name].az_ids):
            texts.append(f"{name}: zones {' '.join(old[name].az_ids)} are now {' '.join(new[name].az_ids)}")
    return sorted(texts)


def _prices(shipped: Tables, region: str, rows: Sequence[Row]) -> list[str]:
    texts: list[str] = []
    for new in map(readers.price, rows):
        label = f"{new.instance_type} {new.use}".removesuffix(" compute")
        old = shipped.prices(region).rows.get((new.service, new.use, new.instance_type, new.market))
        if old is None and new.instance_type.removeprefix("ml.") not in shipped.gpu_instances:
            continue
        if old is None:
            texts.append(f"{label}: ${new.usd_per_hour:g}, not shipped")
        elif abs(old.usd_per_hour - new.usd_per_hour) > _TOLERANCE * new.usd_per_hour:
            texts.append(f"{label}: ${old.usd_per_hour:g} ({old.as_of}) is now ${new.usd_per_hour:g}")
    return texts


def _storage_prices(shipped: Tables, region: str, rows: Sequence[Row]) -> list[str]:
    texts: list[str] = []
    for new in map(storage_price, rows):
        label = f"{new.volume_type} {new.unit}".removesuffix(" gb")
        label = f"{label} above {new.above}" if new.above else label
        tiers = shipped.storage_prices.get((new.service, new.use, new.volume_type, new.unit, region), ())
        old = next((tier for tier in tiers if tier.above == new.above), None)
        if old is None:
            texts.append(f"{label}: ${new.usd_per_month:g} a month, not shipped")
        elif abs(old.usd_per_month - new.usd_per_month) > _TOLERANCE * new.usd_per_month:
            change = f"${old.usd_per_month:g} a month ({old.as_of}) is now ${new.usd_per_month:g}"
            texts.append(f"{label}: {change}")
    return texts
