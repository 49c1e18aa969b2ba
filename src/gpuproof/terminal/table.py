"""Tables, and their plain text that fits the terminal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Union

from gpuproof.terminal.style import Style

GAP = "  "
MIN_COLUMN_WIDTH = 8
"""Minimum width of a shortened column; a table that still does not fit wraps."""


@dataclass(frozen=True)
class Table:
    """A table for people.

    Args:
        headers: one for each column.
        rows: cells, as many as headers.
        right: indexes of columns that are aligned to the right.
        paragraphs: indexes of columns with long texts, which HTML breaks into lines.
        code: indexes of columns in which HTML keeps each character's place.
        hidden: what does not fit into the terminal, for people.
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    paragraphs: tuple[int, ...] = ()
    code: tuple[int, ...] = ()
    hidden: tuple[str, ...] = ()


Block = Union[str, Table]
"""A paragraph or a table; an empty paragraph separates others."""


def render_blocks(blocks: Iterable[Block], style: Style = Style()) -> str:  # noqa: B008 - frozen
    """Paragraphs as they are, and tables that fit the terminal."""
    return "\n".join(
        render_table(block.headers, block.rows, block.right, style) if isinstance(block, Table) else block
        for block in blocks
    )


def render_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    style: Style = Style(),  # noqa: B008 - frozen
    code: Callable[[int, int], str] | None = None,
    width: int | None = None,
) -> str:
    """Renders cells in aligned columns that fit the terminal.

    Args:
        headers: one per column.
        rows: the cells; each row has one per header.
        style: whether to use colours.
        width: characters per line, 0 for any number; that of the terminal if None.

    Returns:
        The table without a trailing newline or trailing blanks. If it is wider than the terminal, its widest
        columns are shortened with `…`, but never the first, so that names can be copied. `COLUMNS` sets the width for
        a pipe, which is otherwise unlimited.
    """
    cells = [list(headers), *(list(row) for row in rows)]
    widths = column_widths(cells)
    _shrink(widths, terminal_width() if width is None else width, right)
    lines = [_line(cells[0], widths, right)]
    for number, row in enumerate(cells[1:]):
        codes = [code(number, column) if code else "" for column in range(len(row))]
        lines.append(_line(row, widths, right, style, codes))
    return "\n".join(lines)


def column_widths(cells: Sequence[Sequence[str]]) -> list[int]:
    """Width of each column; headers count as a row."""
    return [max(map(len, column)) for column in zip(*cells)]


def table_width(cells: Sequence[Sequence[str]]) -> int:
    """Width of the whole table."""
    widths = column_widths(cells)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def terminal_width() -> int:
    """Characters per line; 0 (unlimited) if output is not a terminal and COLUMNS is not set."""
    return shutil.get_terminal_size((0, 0)).columns


def _shrink(widths: list[int], available: int, right: Collection[int]) -> None:
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - available
    while available and excess > 0:
        text_columns = [c for c in range(1, len(widths)) if c not in right and widths[c] > MIN_COLUMN_WIDTH]
        if not text_columns:
            return
        widest = max(text_columns, key=lambda column: widths[column])
        widths[widest] -= 1
        excess -= 1


def _line(
    row: Sequence[str],
    widths: Sequence[int],
    right: Collection[int],
    style: Style | None = None,
    codes: Sequence[str] = (),
) -> str:
    cells = [
        Style().fit(cell, width, right=column in right)
        for column, (cell, width) in enumerate(zip(row, widths))
    ]
    if style is None or not style.colour:
        return GAP.join(cells).rstrip()
    cells[-1] = cells[-1].rstrip()
    return GAP.join(_painted(cell, style, code) for cell, code in zip(cells, codes))


def _painted(cell: str, style: Style, code: str) -> str:
    """The text of a padded cell in a colour; its blanks stay plain."""
    text = cell.strip()
    return cell.replace(text, style.paint(text, code), 1) if text else cell
