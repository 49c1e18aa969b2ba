"""Where something stands: a unit of text, and a place in the file that the text was read from."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

UnitKind = Literal[
    "python",
    "notebook",
    "cell-file",
    "markdown",
    "gpuproof",
    "request",
    "cloudformation",
    "terraform",
    "requirements",
]


class Segment(NamedTuple):
    """From which line on a unit's text comes from which place of its file.

    Attributes:
        first: the unit's line at which the segment begins, from 1.
        line: the line in the file, or in the cell, that `first` is.
        cell: the number of the code cell, from 1; None outside notebooks.
        indent: columns that were cut from the left of each line.
    """

    first: int
    line: int
    cell: int | None = None
    indent: int = 0


@dataclass(frozen=True, eq=False)
class Unit:
    """One text to check: a file, a notebook's code cells joined, a `%%writefile` cell, a fenced block.

    Args:
        path: the file as the user would write it.
        source: the text, with `\\n` between lines.
        kind: what reads it.
        name: the path by which a job can name it; differs from `path` for `%%writefile` cells.
        segments: the map from the text's lines to the file's; empty where they are the same.
        encoding: how the file's bytes were read.
        raw: a notebook's cells before IPython's own lines were taken out; empty elsewhere.
    """

    path: str
    source: str
    kind: UnitKind
    name: str = ""
    segments: tuple[Segment, ...] = ()
    encoding: str = "utf-8"
    raw: str = field(default="", repr=False)

    @cached_property
    def absolute(self) -> Path:
        """The path by which a job can name it, absolute, with `..` resolved but symbolic links kept."""
        return absolute(self.name or self.path)

    @cached_property
    def lines(self) -> list[str]:
        """The text's lines, without their ends."""
        return self.source.split("\n")

    @property
    def is_notebook(self) -> bool:
        """Whether the text comes from a notebook, `%%writefile` cells included."""
        return self.kind in ("notebook", "cell-file")

    def file_position(self, line: int, column: int) -> tuple[int | None, int, int]:
        """Cell, line and column in the file of a line and a column of the text, all from 1."""
        if not self.segments:
            return None, line, column
        starts = [segment.first for segment in self.segments]
        segment = self.segments[max(0, bisect_right(starts, line) - 1)]
        return segment.cell, segment.line + line - segment.first, column + segment.indent

    def span(
        self, line: int, column: int = 1, end_line: int | None = None, end_column: int | None = None
    ) -> Span:
        """A place in this unit, from its own lines and columns (from 1; the end column is exclusive)."""
        return Span(self, line, column, end_line or line, end_column or column + 1)


@dataclass(frozen=True)
class Span:
    """A stretch of a unit's text: lines and columns from 1, the end column exclusive, columns in characters."""

    unit: Unit = field(repr=False)
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def text(self) -> str:
        """The unit's line on which the span begins."""
        lines = self.unit.lines
        return lines[self.line - 1] if 0 < self.line <= len(lines) else ""


def absolute(path: str | Path) -> Path:
    """The path from the root, with `..` folded; symbolic links stay, as the user wrote them."""
    import os

    return Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve would follow links
