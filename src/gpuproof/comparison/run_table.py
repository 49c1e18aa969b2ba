"""Three or more runs as tables: a row for each run, and what differs in their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpuproof.agent.verdict.evidence import PHASES
from gpuproof.comparison.comparison import Comparison, MeasureRow
from gpuproof.comparison.limits import percent
from gpuproof.terminal.table import Block, Table, table_width, terminal_width

_NONE = "-"
_KEPT = ("examples_per_s", "usd", "script_s", "step_s", "gpu_memory_bytes", "utilization")
"""Measures that a narrow terminal leaves out last, the last of these first."""
_PHASES = tuple(f"{phase}_s" for phase in PHASES)


@dataclass(frozen=True)
class _Column:
    header: str
    cell: Callable[[int], str]
    """The text of a side, by its number from 0."""
    rank: int = 0
    """A narrow terminal leaves out columns with larger ranks first; those with 0 never."""
    is_right: bool = False


def run_tables(comparison: Comparison, width: int | None = None) -> Iterator[Block]:
    """A row for each side: what it measured, with the change from the first, and where its steps' time went.

    Args:
        width: characters a line, 0 for no limit; those of the terminal if None.
    """
    width = terminal_width() if width is None else width
    phases = [row for row in comparison.measures if row.measure.name in _PHASES]
    others = [row for row in comparison.measures if row.measure.name not in _PHASES]
    table = _table(comparison, [*_described(comparison), *map(_measure, others)], width)
    yield table
    if phases:
        yield ""
        yield "Where the time of a step went:"
        yield _table(comparison, [*map(_phase, phases)], width)
    if table.hidden:
        yield f"Hidden in this narrow terminal: {', '.join(table.hidden)}; --format json has all."


def setting_table(comparison: Comparison) -> Table:
    """The settings that differ, with a column for each side: its name if there are two, else its number."""
    sides = comparison.sides
    names = [side.name if len(sides) == 2 else f"#{number}" for number, side in enumerate(sides, 1)]
    rows = tuple(
        (setting_label(row.name), *(value or _NONE for value in row.values)) for row in comparison.settings
    )
    return Table(("DIFFERENT", *names), rows)


def setting_label(name: str) -> str:
    """`instance type` for a key of JSON; names of arguments and variables stay as they are."""
    return name if " " in name else name.replace("_", " ")


def _table(comparison: Comparison, columns: Sequence[_Column], width: int) -> Table:
    """As many of the columns as fit, after the number and the name of each side."""
    names = [
        _Column("", lambda side: f"#{side + 1}"),
        _Column("RUN", lambda side: comparison.sides[side].name),
    ]
    shown, hidden = [*names, *columns], []
    sides = range(len(comparison.sides))
    while width and table_width(_cells(shown, sides)) > width:
        last = max(shown, key=lambda column: column.rank)
        if not last.rank:
            break
        shown.remove(last)
        hidden.append(last.header)
    headers, *rows = _cells(shown, sides)
    right = tuple(index for index, column in enumerate(shown) if column.is_right)
    return Table(headers, tuple(rows), right, hidden=tuple(hidden))


def _cells(columns: Sequence[_Column], sides: range) -> list[tuple[str, ...]]:
    rows = [tuple(column.cell(side) for column in columns) for side in sides]
    return [tuple(column.header for column in columns), *rows]


def _described(comparison: Comparison) -> Iterator[_Column]:
    """How each side ended, and where it ran."""

    def ended(side: int) -> str:
        runs = comparison.sides[side].runs
        words = dict.fromkeys(word for run in runs for word in (run.status, run.outcome) if word)
        return ", ".join(words) or _NONE

    yield _Column("OUTCOME", ended, rank=2)
    for rank, name in ((21, "gpu"), (22, "instance_type")):
        values = [side.setting(name) for side in comparison.sides]
        if any(values):
            header = name.removesuffix("_type").upper()
            yield _Column(header, lambda side, values=values: values[side] or _NONE, rank)


def _measure(row: MeasureRow) -> _Column:
    name = row.measure.name
    rank = 1 + _KEPT.index(name) if name in _KEPT else 30
    return _Column(row.measure.label.upper(), lambda side: _changed(row, side), rank, is_right=True)


def _phase(row: MeasureRow) -> _Column:
    return _Column(row.measure.label.strip().upper(), lambda side: _value(row, side), 1, is_right=True)


def _changed(row: MeasureRow, side: int) -> str:
    """`2,731 (-12.1%)`."""
    change = row.changes[side - 1] if side else None
    return _value(row, side) + ("" if change is None else f" ({percent(change.share)})")


def _value(row: MeasureRow, side: int) -> str:
    found = row.estimates[side]
    return _NONE if found is None else row.measure.format(found.mean)
