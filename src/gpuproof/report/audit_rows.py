"""The document of `gpuproof audit --format json`, of this run or a saved one, as the values that its page shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gpuproof.account.audit.judge import NOT_MEASURED
from gpuproof.account.cleanup.resource import RUN_TAG

_MOST_DAYS = 62
"""Longer periods are shown by month."""


@dataclass(frozen=True)
class Resource:
    """One thing that was billed.

    Args:
        label: its name, with the variant of an endpoint.
        usd: what it cost; None if unknown, as is `wasted`, what was paid for GPUs that did no work.
        is_bound: whether `wasted` is an upper bound.
        start, end: when it was billed, within the time that counts; None if unknown.
        document: as in the JSON.
    """

    label: str
    usd: float | None
    wasted: float | None
    is_bound: bool
    start: datetime | None
    end: datetime | None
    document: Mapping[str, Any]

    @property
    def verdict(self) -> str:
        """The outcome."""
        return self.document["verdict"]

    @property
    def is_running(self) -> bool:
        """Whether it is still billed."""
        return self.document["running"]

    @property
    def instances(self) -> str:
        """`2 x ml.g5.xlarge`."""
        count = self.document["instance_count"]
        return (f"{count} x " if count > 1 else "") + self.document["instance_type"]

    @property
    def usd_per_hour(self) -> float | None:
        """What it costs while it runs."""
        seconds = self.document["billed_seconds"]
        return self.usd / seconds * 3600 if self.usd is not None and seconds else None

    @property
    def command(self) -> str:
        """What to type to stop it, or where it has ended, to see why its GPUs did nothing."""
        kind, region, name = (self.document[key] for key in ("kind", "region", "name"))
        if not self.is_running:
            return f"gpuproof audit {name} --region {region}"
        if run := (self.document["tags"] or {}).get(RUN_TAG):
            return f"gpuproof stop {run} --region {region}"
        if kind == "notebook":
            return f"gpuproof notebook stop {name} --region {region}"
        return f"gpuproof cleanup {region}/{kind}/{name} --delete"


@dataclass(frozen=True)
class Split:
    """USD by what the GPUs did for it.

    Args:
        label: a day, a month, or what was grouped.
        worked: for GPUs that did work, as far as is known.
        wasted: for GPUs that did none; an upper bound where the audit says so.
        unmeasured: for GPUs whose work is not known.
    """

    label: str
    worked: float = 0.0
    wasted: float = 0.0
    unmeasured: float = 0.0

    @property
    def usd(self) -> float:
        """All of it."""
        return self.worked + self.wasted + self.unmeasured

    def plus(self, other: Split, share: float = 1.0) -> Split:
        """The sum with a share of another one, under this label."""
        return Split(
            self.label,
            self.worked + other.worked * share,
            self.wasted + other.wasted * share,
            self.unmeasured + other.unmeasured * share,
        )


def resources(document: Mapping[str, Any]) -> list[Resource]:
    """All rows, in their order: the largest waste first."""
    since, until = (moment(document[key]) for key in ("since", "until"))
    return [_resource(row, since, until) for row in document["rows"]]


def moment(text: str) -> datetime:
    """A time of a document."""
    return datetime.fromisoformat(text)


def split_of(resource: Resource, label: str = "") -> Split:
    """What a resource cost, by what its GPUs did; nothing if the cost is unknown."""
    usd, wasted = resource.usd or 0.0, resource.wasted or 0.0
    if resource.verdict == NOT_MEASURED:
        return Split(label, unmeasured=usd)
    return Split(label, worked=usd - wasted, wasted=wasted)


def splits_by(rows: Iterable[Resource], group: Callable[[Resource], str]) -> list[Split]:
    """The sums of groups, the largest waste first."""
    found: dict[str, Split] = {}
    for row in rows:
        label = group(row)
        found[label] = found.get(label, Split(label)).plus(split_of(row))
    return sorted(found.values(), key=lambda split: (-split.wasted, -split.usd, split.label))


def splits_over_time(rows: Sequence[Resource], since: datetime, until: datetime) -> list[Split]:
    """The cost of each day, or each month of a long period, in UTC.

    The cost of a resource is spread evenly over the time from its start to its end. What has neither is not in the sums.
    """
    by_month = until - since > timedelta(days=_MOST_DAYS)
    found = {label: Split(label) for label, _, _ in _periods(since, until, by_month=by_month)}
    for row in rows:
        if row.start is None or row.end is None:
            continue
        whole = max((row.end - row.start).total_seconds(), 1.0)
        for label, start, end in _periods(row.start, row.end, by_month=by_month):
            share = (end - start).total_seconds() / whole if row.end > row.start else 1.0
            found[label] = found.get(label, Split(label)).plus(split_of(row), share)
    return [found[label] for label in sorted(found)]


def _periods(start: datetime, end: datetime, *, by_month: bool) -> list[tuple[str, datetime, datetime]]:
    """The days or months that a time touches: label, and the limits of what is in it."""
    found: list[tuple[str, datetime, datetime]] = []
    at = start
    while at < end or not found:
        day = at.replace(hour=0, minute=0, second=0, microsecond=0)
        following = (
            (day.replace(day=1) + timedelta(days=32)).replace(day=1) if by_month else day + timedelta(days=1)
        )
        found.append((f"{day:%Y-%m}" if by_month else f"{day:%Y-%m-%d}", at, min(end, following)))
        at = following
    return found


def _resource(row: Mapping[str, Any], since: datetime, until: datetime) -> Resource:
    start = row["started"] or row["created"]
    end = row["ended"]
    first = None if start is None else max(since, moment(start))
    last = min(until, moment(end)) if end is not None else until if row["running"] else None
    if first is not None and last is None and row["billed_seconds"]:
        last = min(until, first + timedelta(seconds=row["billed_seconds"]))
    if first is not None and last is not None:
        first = min(first, last)
    wasted = row["wasted_usd"]
    return Resource(
        f"{row['name']}/{row['variant']}" if row["variant"] else row["name"],
        row["usd"],
        wasted,
        bool(wasted) and not row["is_certain"],
        None if first is None else first.astimezone(UTC),
        None if last is None else last.astimezone(UTC),
        row,
    )


def column_seconds(seconds: float, most: int = 120) -> float:
    """How many seconds a column of a heat map stands for, so that a period has at most so many."""
    steps = (300, 900, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
    return float(
        next((step for step in steps if seconds / step <= most), math.ceil(seconds / most / 86_400) * 86_400)
    )
