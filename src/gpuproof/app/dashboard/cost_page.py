"""What runs have cost as a page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from gpuproof.account.cost.entry import CostEntry
from gpuproof.app.account.cost import CostResult
from gpuproof.catalogue.prices import DERIVED
from gpuproof.report import BarChart, Block, Callout, Page, Section, Table, Text
from gpuproof.terminal import table as terminal
from gpuproof.util.humanize import format_duration, format_usd

_MOST_BARS = 25
_HEADERS = {"USD": "USD", "AWS BILL": "AWS bill"}


def cost_page(result: CostResult) -> Page:
    """The page."""
    sections = [Section(f"By {result.by}", [*_sums(result)])]
    if result.entries:
        sections.append(Section("All that was billed", [_entries(result)]))
    subtitle = f"The last {result.age}: billed seconds times list prices. Runs on this machine cost nothing."
    return Page("Costs", subtitle, sections=sections)


def _sums(result: CostResult) -> Iterator[Block]:
    for problem in result.problems:
        yield Callout("warning", "incomplete", problem)
    shown = sorted(result.groups, key=lambda group: -group.usd)[:_MOST_BARS]
    if result.by == "day":
        shown.sort(key=lambda group: group.key)
    if any(group.usd for group in shown):
        yield BarChart(
            "Cost",
            "usd",
            [group.key for group in shown],
            {"cost": [group.usd for group in shown]},
            summary="; ".join(f"{group.key} {format_usd(group.usd)}" for group in shown),
        )
    for block in result.blocks():
        if isinstance(block, terminal.Table):
            headers = [_HEADERS.get(header, header.capitalize()) for header in block.headers]
            yield Table(headers, block.rows, block.right, marked=[len(block.rows) - 1])
        elif block not in result.problems:
            yield Text(str(block))


def _entries(result: CostResult) -> Table:
    headers = ("Run", "Job", "Where", "Instance", "Created", "Billed", "USD")
    return Table(headers, [_row(entry) for entry in result.entries], right=(5, 6))


def _row(entry: CostEntry) -> tuple[str, ...]:
    count = f"{entry.instance_count} x " if entry.instance_count > 1 else ""
    usd = ("" if entry.usd is None or not entry.derived else DERIVED) + format_usd(entry.usd)
    return (
        entry.id,
        entry.job,
        f"{entry.backend}, {entry.region}" if entry.region else entry.backend,
        f"{count}{entry.instance_type}",
        datetime.fromtimestamp(entry.created, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        format_duration(entry.seconds) + (" so far" if entry.running else ""),
        "unknown" if entry.usd is None else usd,
    )
