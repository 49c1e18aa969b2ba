"""Styled text: ANSI colours, wrapping, labels, and cells of a fixed width. Pure functions of text; prints nothing."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"
"""ANSI codes (ECMA-48, SGR); several are joined by `;`."""

_STATUSES = {"Completed": GREEN, "Failed": RED, "Stopped": YELLOW, "Stopping": YELLOW, "InProgress": CYAN}

LABEL_WIDTH = 11
"""Columns of the label before a paragraph."""


def status_colour(status: str, gpu_requirement_met: bool | None = True) -> str:
    """The ANSI code for a run's status; empty for an unknown one.

    Args:
        gpu_requirement_met: False if it completed and a required GPU did no work; None if that is unknown.
    """
    if status == "Completed" and gpu_requirement_met is not True:
        return YELLOW if gpu_requirement_met is None else RED
    return _STATUSES.get(status, "")


@dataclass(frozen=True)
class Style:
    """How text is written to one stream.

    Args:
        colour: whether the terminal shows colours.
        width: characters a line; 0 for no wrapping.
        unicode: whether characters beyond ASCII can be shown.
    """

    colour: bool = False
    width: int = 0
    unicode: bool = True

    def paint(self, text: str, code: str) -> str:
        """The text in an ANSI colour, where colours are shown and there is a code."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code and text else text

    def wrap(self, text: str, first: str = "", rest: str | None = None) -> list[str]:
        """The lines of a paragraph; long words such as paths stay whole.

        Args:
            first: what the first line begins with.
            rest: what the other lines begin with; as many blanks as `first` is long if None.
        """
        if not self.width:
            return [first + text]
        indent = " " * len(first) if rest is None else rest
        return wrap(text, self.width, first, indent) or [first.rstrip()]

    def labelled(self, label: str, lines: Sequence[str]) -> list[str]:
        """Lines with a dim label before the first; the others are indented as far."""
        head, *rest = lines or [""]
        return [
            self.paint(f"{label:<{LABEL_WIDTH}}", DIM) + head,
            *(" " * LABEL_WIDTH + line for line in rest),
        ]

    def fit(self, cell: str, width: int, *, right: bool = False) -> str:
        """A cell padded, or cut with an ellipsis, to exactly `width` columns."""
        if len(cell) > width:
            cell = cell[: width - 1] + ("…" if self.unicode else "~")
        return cell.rjust(width) if right else cell.ljust(width)


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """The lines of a paragraph, none for blank text; words longer than a line stay whole.

    Args:
        first: what the first line begins with.
    """
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
