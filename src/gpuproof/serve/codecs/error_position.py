"""What lists hold where an array of numbers was meant, in words and with its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_TOO_LARGE = 1 << 1024
"""From here on an integer has no float64."""
_LONGEST = 20
_DEEPEST = 64
"""Lists within each other that a place is told for."""


def stray(value: Any, place: str = "") -> str:
    """The first thing in lists in lists that is no number, as `the text 'a' at [0][3]`; empty where there is none.

    Args:
        value: what was read of JSON or CSV.
        place: where it lies itself, as `['name']`.
    """
    for indexes, item in _leaves(value):
        if not _is_number(item):
            if len(indexes) > _DEEPEST:
                return f"{_named(item)} within {len(indexes)} lists"
            where = place + "".join(f"[{index}]" for index in indexes)
            return f"{_named(item)} at {where}" if where else _named(item)
    return ""


def is_numeric(value: Any) -> bool:
    """Whether lists in lists hold nothing but numbers."""
    return all(isinstance(item, (int, float)) for _, item in _leaves(value))


def depth(value: Any) -> int:
    """How many lists lie within each other."""
    level, deep = [value] if isinstance(value, list) else [], 0
    while level:
        deep += 1
        level = [item for items in level for item in items if isinstance(item, list)]
    return deep


def _leaves(value: Any) -> Iterator[tuple[Sequence[int], Any]]:
    """What is no list, with its place. Without recursion: a client nests as deeply as it likes."""
    if not isinstance(value, list):
        yield (), value
        return
    place, opened = [-1], [iter(value)]
    while opened:
        for item in opened[-1]:
            place[-1] += 1
            if isinstance(item, list):
                opened.append(iter(item))
                place.append(-1)
                break
            yield place, item
        else:
            opened.pop()
            place.pop()


def _is_number(item: Any) -> bool:
    return isinstance(item, float) or (isinstance(item, int) and abs(item) < _TOO_LARGE)


def _named(item: Any) -> str:
    if isinstance(item, str):
        shown = item if len(item) <= _LONGEST else f"{item[:_LONGEST]}…"
        return f"the text {shown!r}"
    if item is None:
        return "null"
    if isinstance(item, int):
        return "a number that is too large"
    return "an object" if isinstance(item, dict) else f"a {type(item).__name__}"
