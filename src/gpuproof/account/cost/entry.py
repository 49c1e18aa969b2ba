"""What one run, transform job, endpoint or notebook instance cost, and sums of them by day, job, instance type or backend. Makes no requests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from gpuproof.account.cleanup.resource import JOB_TAG, Resource
from gpuproof.backends.record import RunRecord
from gpuproof.timestamps import iso_time

Grouping = Literal["day", "job", "type", "backend"]
UNKNOWN_TYPE = "unknown"


@dataclass(frozen=True)
class CostEntry:
    """What one run, batch transform job, endpoint or notebook instance cost.

    Args:
        id: the run, or the name of the other.
        backend: `sagemaker`, `ec2`, `transform`, `endpoint` or `notebook`.
        instance_type: such as `ml.g5.xlarge`.
        created: seconds since the epoch.
        seconds: billed seconds of each instance.
        usd: None if the price is unknown.
        derived: whether the price is derived, or the instances may have varied.
        saved_usd: how much more it would have cost on demand; None if unknown.
        running: whether it is still running, so that the cost grows.
    """

    id: str
    job: str
    backend: str
    region: str
    instance_type: str
    instance_count: int
    created: float
    seconds: float
    usd: float | None
    derived: bool
    saved_usd: float | None
    running: bool

    @property
    def day(self) -> str:
        """The day on which it was created, in UTC."""
        return datetime.fromtimestamp(self.created, UTC).date().isoformat()

    def key(self, grouping: Grouping) -> str:
        """The group that it belongs to."""
        keys = {"day": self.day, "job": self.job, "type": self.instance_type, "backend": self.backend}
        return keys[grouping]

    def document(self) -> dict[str, Any]:
        """The JSON form; unknown amounts are null."""
        return {
            "id": self.id,
            "job": self.job,
            "backend": self.backend,
            "region": self.region,
            "instance_type": self.instance_type,
            "instance_count": self.instance_count,
            "created": iso_time(self.created),
            "billed_seconds": self.seconds,
            "usd": self.usd,
            "is_derived": self.derived,
            "saved_usd": self.saved_usd,
            "running": self.running,
        }


@dataclass(frozen=True)
class CostSum:
    """The sum of a group.

    Args:
        key: the day, job, type or backend.
        hours: billed hours of all instances.
        unknown: the number of entries whose price is unknown.
        derived: whether the known part contains derived prices.
        running: the number of entries that still run.
    """

    key: str
    count: int
    hours: float
    usd: float
    unknown: int
    derived: bool
    saved_usd: float
    running: int

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "key": self.key,
            "count": self.count,
            "instance_hours": round(self.hours, 4),
            "usd": round(self.usd, 4),
            "unknown_prices": self.unknown,
            "is_derived": self.derived,
            "saved_usd": round(self.saved_usd, 4),
            "running": self.running,
        }


def run_entry(record: RunRecord) -> CostEntry | None:
    """The entry of a run; None for one that nothing was billed for, such as one that never started."""
    if not record.billed_seconds:
        return None
    return CostEntry(
        id=record.id,
        job=record.job_name,
        backend=record.backend,
        region=record.document.get("region") or "",
        instance_type=record.instance_type or UNKNOWN_TYPE,
        instance_count=record.instance_count,
        created=record.created,
        seconds=record.billed_seconds,
        usd=record.cost,
        derived=bool(record.document.get("cost_is_derived")),
        saved_usd=spot_saving_usd(record.cost, record.spot_saving),
        running=not record.has_ended,
    )


def spot_saving_usd(usd: float | None, share: float | None) -> float | None:
    """How much more a run would have cost on demand, from its cost and the saved share of the on-demand cost.

    0 without spot capacity; None if the cost is unknown, or if all of it was saved.
    """
    if not share:
        return 0.0
    if usd is None or share >= 1:
        return None
    return usd * share / (1 - share)


def endpoint_entry(endpoint: Resource, since: float, now: float) -> CostEntry:
    """The entry of an endpoint that exists now: its present instances since it was created.

    Args:
        since: count from here, in seconds since the epoch.
    """
    created = now if endpoint.created is None else endpoint.created
    seconds = max(0.0, now - max(created, since))
    types = sorted({fleet.instance_type for fleet in endpoint.fleets})
    return CostEntry(
        id=endpoint.id,
        job=(endpoint.tags or {}).get(JOB_TAG, endpoint.id),
        backend="endpoint",
        region=endpoint.region,
        instance_type=" + ".join(types) or UNKNOWN_TYPE,
        instance_count=sum(fleet.count for fleet in endpoint.fleets),
        created=created,
        seconds=seconds,
        usd=None if endpoint.cost is None else endpoint.cost.usd * seconds / 3600,
        derived=True,
        saved_usd=0.0,
        running=True,
    )


def sums_of(entries: Iterable[CostEntry], grouping: Grouping) -> list[CostSum]:
    """The sums of all groups: days in their order, other groups with the most expensive first."""
    groups: dict[str, list[CostEntry]] = {}
    for entry in entries:
        groups.setdefault(entry.key(grouping), []).append(entry)
    found = [sum_of(key, those) for key, those in groups.items()]
    if grouping == "day":
        return sorted(found, key=lambda entry: entry.key)
    return sorted(found, key=lambda cost: (-cost.usd, cost.key))


def sum_of(key: str, entries: Iterable[CostEntry]) -> CostSum:
    """The sum of entries."""
    those = list(entries)
    known = [cost_entry for cost_entry in those if cost_entry.usd is not None]
    return CostSum(
        key,
        len(those),
        sum(cost_entry.seconds * cost_entry.instance_count for cost_entry in those) / 3600,
        sum(cost.usd or 0.0 for cost in known),
        len(those) - len(known),
        any(cost.derived for cost in known),
        sum(cost_entry.saved_usd or 0.0 for cost_entry in those),
        sum(cost_entry.running for cost_entry in those),
    )


def bill_by(grouping: Grouping, costs: Iterable[tuple[str, str, float]]) -> Mapping[str, float] | None:
    """Cost Explorer's amounts by the groups of the records; None if it does not have such groups.

    Args:
        costs: the day, the job's name and the amount in USD; the name is empty for what has no tag, which is left out.
    """
    if grouping not in ("day", "job"):
        return None
    found: dict[str, float] = {}
    for day, job, usd in costs:
        if job:
            key = day if grouping == "day" else job
            found[key] = found.get(key, 0.0) + usd
    return found
