"""The figures as Markdown for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .generators import Reading

OWN = "GPUproof"
_BARE = "the bare predict loop's pace"
_WITH_BODIES = (
    "that of a loop that reads the body (`json.loads` and `torch.tensor`, or `np.load`), predicts and writes"
)
_HOW = (
    "Closed loop; each stack serves the same model with one torch thread, in a virtual environment of its own, and "
    "only the one that is measured runs (the others are stopped with SIGSTOP). Rounds are interleaved; figures are "
    "medians of rounds. A measurement during which other programs kept more than 0.4 of a core busy is taken again, and "
    "the calmer one counts. Ratios: the median of the rounds' own ratios; in brackets that of the best rounds. The "
    "ratio of CPU seconds a request is the one that other programs disturb least. On a shared machine ratios under 1.5 "
    "say nothing. A stack that does not take NPY is left out there."
)


@dataclass
class Row:
    """One stack in one case.

    Args:
        name: of the stack.
        readings: by clients, one a round.
        cold_ping, cold_answer: seconds from its start to the first 200.
        memory: bytes (PSS) of its process tree after the load.
        ping_p99: seconds, by clients, while they kept the model busy.
        skipped: the reason why there are no figures.
    """

    name: str
    readings: dict[int, list[Reading]] = field(default_factory=dict[int, list[Reading]])
    cold_ping: float = 0.0
    cold_answer: float = 0.0
    memory: int = 0
    ping_p99: dict[int, float] = field(default_factory=dict[int, float])
    skipped: str = ""


@dataclass
class Table:
    """One case.

    Args:
        name: of the case.
        clients: of its measurements.
        bytes: of one request's body, as most stacks take it.
        bare_load: seconds that a process takes to import torch and load the model, without a server.
        ceilings: items a second by batch size without any server, one a round.
        beside: GPUproof's answers a second (by their median time) over the bare loop's predictions (by theirs), by
            clients, one a pair.
        beside_with_bodies: the same over a loop that also reads the body and writes the answer.
        without_server: the pace of a loop that reads and writes with GPUproof's codecs over the bare loop's, one a pair.
        bounds: the pace of each baseline with less work than GPUproof over the bare loop's, with a single client; one
            a pair.
        rows: the stacks.
        when: the day, the load average before and after, and what else the machine did.
    """

    name: str
    clients: tuple[int, ...]
    bytes: int
    when: str = ""
    bare_load: float = 0.0
    ceilings: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    beside: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    beside_with_bodies: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    without_server: list[float] = field(default_factory=list[float])
    bounds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    rows: list[Row] = field(default_factory=list[Row])

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Table:
        """Restore a table from the result of `as_json`."""
        given = dict(value)
        given["clients"] = tuple(given["clients"])
        given["ceilings"] = {int(batch): rates for batch, rates in given["ceilings"].items()}
        for name in ("beside", "beside_with_bodies"):
            given[name] = {int(clients): shares for clients, shares in given.get(name, {}).items()}
        given["rows"] = [row_from_json(row) for row in given["rows"]]
        return cls(**given)

    @property
    def ceiling(self) -> float:
        """The highest rate over all batch sizes, by their medians."""
        return max((statistics.median(rates) for rates in self.ceilings.values()), default=0.0)


def machine() -> str:
    """A description of the machine without its host name."""
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    model = f", {' '.join(found[1].split())}" if found else ""
    return f"{platform.machine()}, {os.cpu_count()} cores{model}"


def file_words() -> str:
    """The same description in the form used in file names."""
    return f"{platform.machine()}-{os.cpu_count()}-cores"


def as_json(tables: Sequence[Table], facts: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured."""
    return {"version": 1, **facts, "cases": [asdict(table) for table in tables]}


def as_markdown(tables: Sequence[Table], facts: dict[str, Any]) -> str:
    """A table for each case, and the ratios side by side."""
    lines = [
        "# `gpuproof serve` compared with other servers",
        "",
        f"{facts['machine']}, Python {facts['python']}; load by {facts['generator']} on the same cores.",
        "",
        _HOW,
        "",
    ]
    for table in tables:
        lines += _table(table)
    return "\n".join(lines)


def rate(row: Row, clients: int) -> float:
    """Answers a second, the median of the rounds; 0 where there is none."""
    readings = row.readings.get(clients, [])
    return statistics.median(reading.rate for reading in readings) if readings else 0.0


def ratio(own: Row, peer: Row, clients: int) -> float | None:
    """GPUproof's answers a second over a peer's: the median of the rounds' own ratios."""
    pairs = zip(own.readings.get(clients, []), peer.readings.get(clients, []), strict=False)
    ratios = [mine.rate / theirs.rate for mine, theirs in pairs if theirs.rate]
    return statistics.median(ratios) if ratios else None


def best_ratio(own: Row, peer: Row, clients: int) -> float | None:
    """The same of the best round of each: the least disturbed."""
    mine, theirs = (
        max((reading.rate for reading in row.readings.get(clients, [])), default=0.0) for row in (own, peer)
    )
    return mine / theirs if theirs else None


def cpu(row: Row, clients: int) -> float:
    """Seconds of CPU a request, the median of the rounds."""
    readings = row.readings.get(clients, [])
    return statistics.median(reading.cpu for reading in readings) if readings else 0.0


def p99(row: Row, clients: int) -> float:
    """Seconds, the median of the rounds."""
    readings = row.readings.get(clients, [])
    return statistics.median(reading.p99 for reading in readings) if readings else 0.0


def row_from_json(value: dict[str, Any]) -> Row:
    """Restore a row from the result of `asdict` and JSON."""
    given = dict(value)
    given["readings"] = {
        int(clients): [Reading(**reading) for reading in readings]
        for clients, readings in given["readings"].items()
    }
    given["ping_p99"] = {int(clients): seconds for clients, seconds in given["ping_p99"].items()}
    return Row(**given)


def line(cells: Sequence[str]) -> list[str]:
    """One line of a table in Markdown."""
    return [f"| {' | '.join(cells)} |"]


def without_paths(text: str) -> str:
    """A message without this machine's folders."""
    return re.sub(r"(?:/[\w.@+-]+){2,}", "…", text)


def _quartiles(shares: Sequence[float]) -> str:
    low, middle, high = (f"{100 * share:.1f} %" for share in statistics.quantiles(shares, n=4))
    return f"{middle} (quartiles {low} and {high}, {len(shares)} pairs of fresh processes)"


def _table(table: Table) -> list[str]:
    lines = [f"## {table.name} ({table.bytes:,} bytes a request)", "", table.when, ""]
    if table.ceilings:
        parts = [
            f"{statistics.median(rates):,.0f}/s in batches of {batch}"
            for batch, rates in table.ceilings.items()
        ]
        lines += [f"In-process ceiling, one thread: {', '.join(parts)}.", ""]
    for clients in table.beside:
        ratios = "; ".join(
            f"{_quartiles(shares[clients])} of {what}"
            for shares, what in ((table.beside, _BARE), (table.beside_with_bodies, _WITH_BODIES))
            if clients in shares
        )
        noun = "client" if clients == 1 else "clients"
        lines += [f"GPUproof's pace with {clients} {noun}, by median times: {ratios}.", ""]
    if table.without_server:
        share = _quartiles(table.without_server)
        lines += [
            f"A loop that reads and writes with GPUproof's codecs, without a server: {share} of {_BARE}.",
            "",
        ]
    for name, shares in table.bounds.items():
        lines += [f"With 1 client, {name}: {_quartiles(shares)} of {_BARE}.", ""]
    own = next((row for row in table.rows if row.name == OWN and not row.skipped), None)
    measured = [row for row in table.rows if not row.skipped]
    heads = ["stack", *(f"{count} clients: req/s, p50, p99 ms" for count in table.clients)]
    heads += [
        f"CPU µs a request at {table.clients[-1]}",
        "of the ceiling",
        "memory MB",
        "start to /ping, to an answer s",
        "ping p99 busy ms",
    ]
    lines += line(heads) + line(["---"] * len(heads))
    for row in measured:
        cells = [row.name]
        for count in table.clients:
            p50 = statistics.median(reading.p50 for reading in row.readings[count]) * 1e3
            failed = sum(reading.failed for reading in row.readings[count])
            cells.append(
                f"{rate(row, count):,.0f}, {p50:.1f}, {p99(row, count) * 1e3:.0f}"
                + (f" ({failed} failed)" if failed else "")
            )
        cells.append(f"{cpu(row, table.clients[-1]) * 1e6:,.0f}")
        best = max(rate(row, count) for count in table.clients)
        cells.append(f"{100 * best / table.ceiling:.0f} %" if table.ceilings else "-")
        cells.append(f"{row.memory / 1e6:.0f}")
        cells.append(f"{row.cold_ping:.1f}, {row.cold_answer:.1f}")
        cells.append(", ".join(f"{seconds * 1e3:.1f}" for seconds in row.ping_p99.values()) or "-")
        lines += line(cells)
    lines += ["", f"A process that only imports torch and loads the model takes {table.bare_load:.1f} s.", ""]
    if own:
        most = table.clients[-1]
        heads = ["GPUproof over", *(f"{count} clients" for count in table.clients)]
        heads.append(f"CPU of theirs over GPUproof's, {most} clients")
        lines += line(heads) + line(["---"] * len(heads))
        for row in measured:
            if row is own:
                continue
            pairs = [(ratio(own, row, count), best_ratio(own, row, count)) for count in table.clients]
            cells = [f"{pair:.2f} ({best:.2f})" if pair and best else "-" for pair, best in pairs]
            less = cpu(row, most) / cpu(own, most) if cpu(own, most) else 0.0
            lines += line([row.name, *cells, f"{less:.2f}"])
        lines.append("")
    lines += [f"{row.name}: not measured: {row.skipped}" for row in table.rows if row.skipped]
    return [*lines, ""] if any(row.skipped for row in table.rows) else lines
