"""The page of an audit: what the GPUs of an account cost, what idle ones did, over time, the largest waste first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from gpuproof.account.audit.row import AuditRow
from gpuproof.agent.verdict import CPU_ONLY, IDLE, PARTLY_USED, USED
from gpuproof.report.audit_rows import (
    Resource,
    Split,
    column_seconds,
    moment,
    resources,
    split_of,
    splits_by,
    splits_over_time,
)
from gpuproof.report.charts import BarChart, Heatmap, Tone
from gpuproof.report.page import Block, Callout, Facts, Log, Page, Section, Status, Table, Text
from gpuproof.util.humanize import format_usd, pluralize

_MOST_BARS, _MOST_ROWS, _MOST_GROUPS, _MOST_COMMANDS = 15, 20, 15, 5
_MOST_MEASURED = 25
_LARGE_WASTE = 0.1
"""Share of the cost from which the waste is shown as bad."""
_TONES: dict[str, Tone] = {USED: "good", CPU_ONLY: "bad", IDLE: "bad", PARTLY_USED: "bad"}
_HEADERS = (
    *("Kind", "Name", "Region", "Instances", "GPUs", "Hours", "USD", "Mean", "P90", "Verdict", "Wasted"),
    "User",
)


def audit_page(document: Mapping[str, Any], rows: Sequence[AuditRow] = (), footer: str = "") -> Page:
    """The page.

    Args:
        document: as of `gpuproof audit --format json`.
        rows: of the same audit, with the utilization over time, which the document does not have.
        footer: what wrote the page, and when.
    """
    found = resources(document)
    since, until = moment(document["since"]), moment(document["until"])
    sections = [
        Section("What the GPUs did", list(_overview(document, found))),
        Section("What to stop", list(_to_stop(found))),
        Section("Cost over time", list(_over_time(found, since, until))),
        Section("The largest waste first", list(_worst(found))),
        Section("By group", list(_groups(document, found))),
        Section("Utilization over time", list(_utilization(rows, since, until))),
        Section("Everything", list(_all(found))),
        Section("What could not be read", list(_problems(document))),
        Section("What the numbers mean", [Text(text, is_muted=True) for text in _MEANINGS]),
    ]
    period = f"{since:%Y-%m-%d} to {until:%Y-%m-%d}, {pluralize(len(document['regions']), 'region')}"
    shown = [section for section in sections if section.blocks]
    return Page("GPU audit", period, _status(document), shown, footer)


_MEANINGS = (
    (
        "Wasted: what was paid for GPUs that did no work; “up to” where only an upper bound is known. Costs are the billed time by list "
        "prices, without discounts and Savings Plans."
    ),
    (
        "Utilization is the time in which a kernel ran, as CloudWatch has it: a kernel that spins or waits counts as work. SageMaker publishes "
        "the sum of a host's GPUs only."
    ),
)


def _status(document: Mapping[str, Any]) -> Status:
    total = document["total"]
    if not total["wasted_usd"]:
        return Status("nothing wasted" if document["rows"] else "no GPUs", "neutral")
    bound = "up to " if total["wasted_is_upper_bound"] else ""
    is_bad = total["wasted_usd"] > _LARGE_WASTE * total["usd"]
    return Status(f"{bound}{format_usd(total['wasted_usd'])} wasted", "bad" if is_bad else "warning")


def _overview(document: Mapping[str, Any], found: Sequence[Resource]) -> Iterator[Block]:
    total = document["total"]
    yield Callout(_status(document).tone, "summary", document["summary"])
    counts = Counter(row.verdict for row in found)
    measured = [row for row in found if row.document["mean_utilization"] is not None]
    weights = [(row.document["instance_hours"] or 0.0) * (row.document["gpus"] or 1) for row in measured]
    mean = sum(
        row.document["mean_utilization"] * weight for row, weight in zip(measured, weights, strict=True)
    )
    rows = [
        ("Cost", format_usd(total["usd"])),
        ("Wasted", _wasted_text(total["wasted_usd"], is_bound=total["wasted_is_upper_bound"])),
        ("Costs unknown", str(total["unknown_costs"]) if total["unknown_costs"] else ""),
        ("Instance hours", f"{total['instance_hours']:,.1f}"),
        ("Mean utilization", f"{mean / sum(weights):.0f}% of the GPU hours" if sum(weights) else ""),
        ("Verdicts", ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())),
        ("Still running", str(sum(row.is_running for row in found)) if found else ""),
        ("Regions", ", ".join(document["regions"])),
        (
            "CloudWatch",
            f"{document['cloudwatch']['metrics']:,} metrics read, {format_usd(document['cloudwatch']['usd'])}",
        ),
    ]
    yield Facts([(label, text) for label, text in rows if text])


def _to_stop(found: Sequence[Resource]) -> Iterator[Block]:
    """What still runs while its GPUs do nothing, with the command that ends it."""
    running = [row for row in found if row.is_running and row.wasted]
    if not running:
        return
    yield Table(
        ("Name", "Kind", "Verdict", "USD an hour", "Wasted so far", "User"),
        [
            (
                row.label,
                row.document["kind"],
                row.verdict,
                format_usd(row.usd_per_hour),
                _wasted_text(row.wasted, is_bound=row.is_bound),
                row.document["user"],
            )
            for row in running
        ],
        right=(3, 4),
        caption="Still billed, while GPUs do no work",
    )
    yield Log(
        "\n".join(dict.fromkeys(row.command for row in running)),
        "What to type; each command asks first or says what it ends",
    )


def _over_time(found: Sequence[Resource], since: datetime, until: datetime) -> Iterator[Block]:
    splits = splits_over_time(found, since, until)
    if any(split.usd for split in splits):
        by_month = bool(splits) and len(splits[0].label) == len("2026-11")
        yield _split_chart(f"Cost by {'month' if by_month else 'day'}", splits)
    unknown = [row for row in found if row.usd is not None and (row.start is None or row.end is None)]
    if unknown:
        total = format_usd(sum(row.usd or 0.0 for row in unknown))
        yield Text(
            f"{total} of {pluralize(len(unknown), 'resource')} is not in it: their time is unknown.",
            is_muted=True,
        )


def _split_chart(title: str, splits: Sequence[Split], caption: str = "") -> BarChart:
    total = Split("").plus(sum_splits(splits))
    return BarChart(
        title,
        "usd",
        [split.label for split in splits],
        {
            "wasted": [split.wasted for split in splits],
            "not measured": [split.unmeasured for split in splits],
            "worked": [split.worked for split in splits],
        },
        summary=f"{format_usd(total.usd)}, of which {format_usd(total.wasted)} was wasted and {format_usd(total.unmeasured)} not measured.",
        caption=caption,
    )


def sum_splits(splits: Sequence[Split]) -> Split:
    """The sum of all."""
    total = Split("")
    for split in splits:
        total = total.plus(split)
    return total


def _worst(found: Sequence[Resource]) -> Iterator[Block]:
    wasteful = [row for row in found if row.wasted]
    costly = sorted((row for row in found if row.usd), key=lambda row: -(row.usd or 0.0))
    for title, rows in (("Waste by resource", wasteful), ("Cost by resource, the highest first", costly)):
        if rows:
            shown = rows[:_MOST_BARS]
            more = f"The first {len(shown)} of {len(rows)}." if len(rows) > len(shown) else ""
            yield _split_chart(title, [split_of(row, row.label) for row in shown], more)
    if wasteful:
        yield Table(
            ("Name", "Wasted", "What was measured", "What to do"),
            [
                (
                    row.label,
                    _wasted_text(row.wasted, is_bound=row.is_bound),
                    row.document["reason"],
                    row.document["remedy"] or "-",
                )
                for row in wasteful[:_MOST_ROWS]
            ],
            right=(1,),
        )
        commands = [row.command for row in wasteful if not row.is_running][:_MOST_COMMANDS]
        if commands:
            yield Log(
                "\n".join(commands), "The log, the code and a smaller instance of those that have ended"
            )


def _groups(document: Mapping[str, Any], found: Sequence[Resource]) -> Iterator[Block]:
    if not any(row.usd for row in found):
        return
    for title, key in (
        ("instance type", "instance_type"),
        ("user", "user"),
        ("kind", "kind"),
        ("region", "region"),
    ):
        splits = splits_by(found, lambda row, key=key: row.document[key])
        if len(splits) > 1:
            shown = splits[:_MOST_GROUPS]
            more = f"The first {len(shown)} of {len(splits)}." if len(splits) > len(shown) else ""
            yield _split_chart(f"Cost by {title}", shown, more)
    if document["groups"] and document["by"] not in ("type", "user"):
        yield _groups_table(document)


def _groups_table(document: Mapping[str, Any]) -> Table:
    return Table(
        (str(document["by"]), "Count", "Hours", "USD", "Wasted"),
        [
            (
                group["key"],
                str(group["count"]),
                f"{group['instance_hours']:,.1f}",
                format_usd(group["usd"]),
                _wasted_text(group["wasted_usd"], is_bound=group["wasted_is_upper_bound"]),
            )
            for group in document["groups"]
        ],
        right=(1, 2, 3, 4),
        caption=f"By {document['by']}",
    )


def _utilization(rows: Sequence[AuditRow], since: datetime, until: datetime) -> Iterator[Block]:
    measured = [row for row in rows if any(host.gpu.values and host.gpus for host in row.hosts)][
        :_MOST_MEASURED
    ]
    if not measured:
        return
    step = column_seconds((until - since).total_seconds())
    yield Heatmap(
        "Utilization of the GPUs",
        "percent",
        {
            row.workload.label: mean_over_time(row, since.timestamp(), until.timestamp(), step)
            for row in measured
        },
        step,
        summary=f"Of {pluralize(len(measured), 'resource')}, the largest waste first.",
        caption=f"Percent of all its GPUs; time since {since:%Y-%m-%d %H:%M} UTC.",
    )


def mean_over_time(row: AuditRow, since: float, until: float, step: float) -> list[float | None]:
    """Utilization in percent of all GPUs of a row, by period; None where there is no value.

    Args:
        since, until: seconds since the epoch.
        step: seconds of a period.
    """
    columns = max(1, int(-(-(until - since) // step)))
    sums, counts = [0.0] * columns, [0] * columns
    for host in row.hosts:
        for at, value in zip(host.gpu.times, host.gpu.values, strict=True):
            column = int((at - since) // step)
            if host.gpus and 0 <= column < columns:
                sums[column] += value
                counts[column] += host.gpus
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def _all(found: Sequence[Resource]) -> Iterator[Block]:
    if found:
        yield Table(
            _HEADERS,
            [_cells(row) for row in found],
            right=(4, 5, 6, 7, 8, 10),
            caption=f"All {len(found)}, the largest waste first; ~ marks an estimate",
        )
    notes = {row.label: "; ".join(row.document["notes"]) for row in found if row.document["notes"]}
    if notes:
        yield Table(("Name", "Note"), list(notes.items()), caption="Notes", is_collapsed=True)


def _cells(row: Resource) -> tuple[str, ...]:
    known = row.document
    usd = "?" if row.usd is None else ("~" if known["is_estimate"] else "") + format_usd(row.usd)
    return (
        known["kind"],
        row.label,
        known["region"],
        row.instances,
        "?" if known["gpus"] is None else str(known["gpus"]),
        "?" if known["instance_hours"] is None else f"{known['instance_hours']:.1f}",
        usd,
        _percent(known["mean_utilization"]),
        _percent(known["p90_utilization"]),
        row.verdict + (", running" if row.is_running else ""),
        _wasted_text(row.wasted, is_bound=row.is_bound),
        known["user"],
    )


def _problems(document: Mapping[str, Any]) -> Iterator[Block]:
    for problem in document["problems"]:
        where = f"{problem['not_read']} in {problem['region']}"
        yield Callout("warning", "not read", f"{where}: {problem['message']}")


def _wasted_text(wasted: float | None, *, is_bound: bool) -> str:
    return f"{'up to ' if is_bound else ''}{format_usd(wasted)}" if wasted else "-"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"
