"""Shortens long lists of numbers in Python source before it is parsed: a syntax tree needs a kilobyte for each number."""

from __future__ import annotations

import re
from dataclasses import dataclass

KEPT = 60_000
"""Characters of a list that are kept: more items than are evaluated."""
MAX_SEPARATORS = 400_000
"""Commas in a source whose lists are shortened; a text with more of them is data."""
SMALL = 500_000
"""Characters; a shorter source is never shortened."""
_NUMBERS = re.compile(r"[-+\d.eEjxXa-fA-F_,:\s\[\](){}]{120000,}+")
_BRACKETS = re.compile(r"[\[\](){}]")
_VISIBLE = re.compile(r"[^\n]")


def shorten_data(source: str) -> str:
    """The source with blanks instead of most items of its longest lists of numbers; lines and columns stay.

    A list keeps its first items, so that it is still too long to be evaluated.
    """
    if len(source) < SMALL:
        return source
    return _NUMBERS.sub(lambda match: _shortened(match.group()), source)


def is_data(source: str) -> bool:
    """Whether a shortened source is data rather than code."""
    return len(source) >= SMALL and source.count(",") > MAX_SEPARATORS


def _shortened(run: str) -> str:
    """A run of numbers and brackets without the items in the middle of its long lists."""
    pieces: list[str] = []
    end = 0
    for first, last in _removable(run):
        pieces += [run[end:first], _VISIBLE.sub(" ", run[first:last])]
        end = last
    return "".join((*pieces, run[end:]))


def _removable(run: str) -> list[tuple[int, int]]:
    """The outermost ranges between two commas of the same list, of which the first `KEPT` characters stay."""
    found: list[tuple[int, int]] = []
    open_lists = [_List(0)]

    def close() -> None:
        closed = open_lists.pop()
        if closed.first is not None and closed.last > closed.first:
            found[:] = [(first, last) for first, last in found if last < closed.first]
            found.append((closed.first, closed.last))

    before = 0
    for bracket in _BRACKETS.finditer(run):
        at = bracket.start()
        open_lists[-1].add_commas(run, before, at)
        before = at + 1
        if bracket.group() in "[({":
            open_lists.append(_List(at))
            continue
        close()
        if not open_lists:
            open_lists.append(_List(at))
    open_lists[-1].add_commas(run, before, len(run))
    while open_lists:
        close()
    return found


@dataclass
class _List:
    """A list that is read: where it starts, and the ends of two of its commas."""

    start: int
    first: int | None = None
    last: int = -1

    def add_commas(self, run: str, begin: int, end: int) -> None:
        """Take the commas of a part of the list without brackets."""
        if self.first is None:
            at = run.find(",", max(begin, self.start + KEPT), end)
            self.first = at + 1 if at >= 0 else None
        self.last = max(self.last, run.rfind(",", begin, end) + 1)
