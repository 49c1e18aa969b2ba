"""Units of text to check, and positions in them and in the files that they come from."""

from __future__ import annotations

import os
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
    "settings",
    "cloudformation",
    "terraform",
    "requirements",
    "shell",
    "makefile",
    "dockerfile",
    "compose",
    "deepspeed",
    "kubernetes",
    "typescript",
]


class Segment(NamedTuple):
    """Maps the lines of a unit, from one line on, to lines of its file.

    Attributes:
        first: the first line of the segment in the unit, from 1.
        line: the line of the file, or of the cell, that corresponds to `first`.
        cell: the number of the cell, from 1, cells with text included; None outside notebooks.
        indent: columns that were removed from the left of each line.
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
        name: the path that a job uses for it; differs from `path` for `%%writefile` cells.
        segments: maps the lines of the text to lines of the file; empty if they are the same.
        raw: the cells of a notebook with IPython magics, which `source` does not contain; empty elsewhere.
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
        """The absolute path that a job uses for it, with `..` resolved and symbolic links kept."""
        return absolute(self.name or self.path)

    @cached_property
    def folder(self) -> str:
        """The folder of its absolute path, as text: hashing a `Path` takes longer, and imports look it up often."""
        return str(self.absolute.parent)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the text, without line breaks."""
        return self.source.split("\n")

    @cached_property
    def written_lines(self) -> list[str]:
        """The lines as the user wrote them: those of a notebook with magics and shell commands."""
        if not self.raw:
            return self.lines
        pairs = zip(self.raw.split("\n"), self.lines, strict=False)
        written = [raw if raw.strip() != line.strip() else line for raw, line in pairs]
        return written + self.lines[len(written) :]

    @property
    def magic_lines(self) -> list[str]:
        """The lines of a notebook that are not Python: IPython magics, shell commands, and cells such as `%%bash`."""
        pairs = zip(self.raw.split("\n"), self.lines, strict=False) if self.raw else ()
        return [written for written, line in pairs if written.strip() != line.strip()]

    @property
    def is_notebook(self) -> bool:
        """Whether the text comes from a notebook, including `%%writefile` cells."""
        return self.kind in ("notebook", "cell-file")

    def file_position(self, line: int, column: int) -> tuple[int | None, int, int]:
        """Translate a line and column of the text into cell, line and column of the file, all from 1."""
        if not self.segments:
            return None, line, column
        starts = [segment.first for segment in self.segments]
        segment = self.segments[max(0, bisect_right(starts, line) - 1)]
        return segment.cell, segment.line + line - segment.first, column + segment.indent

    def span(
        self, line: int, column: int = 1, end_line: int | None = None, end_column: int | None = None
    ) -> Span:
        """A span of this unit, by its lines and columns (from 1; the end column is exclusive)."""
        return Span(self, line, column, end_line or line, end_column or column + 1)


@dataclass(frozen=True)
class Span:
    """A range of a unit's text: lines and columns from 1, columns in characters, the end column exclusive."""

    unit: Unit = field(repr=False)
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def text(self) -> str:
        """The line on which the span starts, as the user wrote it."""
        lines = self.unit.written_lines
        return lines[self.line - 1] if 0 < self.line <= len(lines) else ""


def absolute(path: str | Path) -> Path:
    """The absolute path with `..` resolved and symbolic links kept, as the user wrote them."""
    return Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve would follow links
