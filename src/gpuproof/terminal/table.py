"""Plain text tables that fit the terminal."""

import shutil
from collections.abc import Collection, Sequence

from gpuproof.terminal.style import Style

GAP = "  "
NARROWEST = 8
"""Columns are never cut below this width: a table that still does not fit is left to wrap."""


def render_table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> str:
    """Lines up cells in columns, as wide as the terminal allows.

    Args:
        headers: one word or two a column.
        rows: the cells; a row has as many as there are headers.
        right: indexes of columns that line up at the right, as numbers do.

    Returns:
        The table without a trailing newline or trailing blanks. Where it is wider than the terminal, its widest
        columns are cut and end in `…`, but never the first: people copy names. `COLUMNS` sets the width for a pipe,
        which otherwise is not cut at all.
    """
    cells = [list(headers), *(list(row) for row in rows)]
    widths = column_widths(cells)
    _shrink(widths, terminal_width(), right)
    return "\n".join(_line(row, widths, right) for row in cells)


def column_widths(cells: Sequence[Sequence[str]]) -> list[int]:
    """The width that each column needs; headers count as a row."""
    return [max(map(len, column)) for column in zip(*cells, strict=True)]


def table_width(cells: Sequence[Sequence[str]]) -> int:
    """The width that the whole table needs."""
    widths = column_widths(cells)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def terminal_width() -> int:
    """Characters a line; 0 where output is no terminal and COLUMNS is not set: then nothing need be cut."""
    return shutil.get_terminal_size((0, 0)).columns


def _shrink(widths: list[int], available: int, right: Collection[int]) -> None:
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - available
    while available and excess > 0:
        text_columns = [c for c in range(1, len(widths)) if c not in right and widths[c] > NARROWEST]
        if not text_columns:
            return
        widest = max(text_columns, key=lambda column: widths[column])
        widths[widest] -= 1
        excess -= 1


def _line(row: Sequence[str], widths: Sequence[int], right: Collection[int]) -> str:
    cells = (
        Style().fit(cell, width, right=column in right)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return GAP.join(cells).rstrip()
