"""Finds what prevents nested lists from being an array of numbers, and describes it with its position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

_TOO_LARGE = 1 << 1024
"""The smallest integer that float64 cannot represent."""
_MAX_SHOWN = 20
_MAX_POSITION = 64
"""Nesting depth up to which positions are reported."""


def first_non_number(value: Any, place: str = "") -> str:
    """Describe the first value in nested lists that is not a number: `the text 'a' at [0][3]`; empty if there is none.

    Args:
        value: Python values from JSON or CSV.
        place: position of the value itself, such as `['name']`.
    """
    for indexes, item in _leaves(value):
        if not _is_number(item):
            if len(indexes) > _MAX_POSITION:
                return f"{_describe(item)} within {len(indexes)} lists"
            where = place + "".join(f"[{index}]" for index in indexes)
            return f"{_describe(item)} at {where}" if where else _describe(item)
    return ""


def is_numeric(value: Any) -> bool:
    """Whether nested lists contain only numbers."""
    return all(isinstance(item, (int, float)) for _, item in _leaves(value))


def depth(value: Any) -> int:
    """Nesting depth of lists."""
    level, deep = [value] if isinstance(value, list) else [], 0
    while level:
        deep += 1
        level = [item for items in level for item in items if isinstance(item, list)]
    return deep


def _leaves(value: Any) -> Iterator[tuple[Sequence[int], Any]]:
    """All values that are not lists, with their positions. Not recursive, because clients control the depth."""
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


def _describe(item: Any) -> str:
    if isinstance(item, str):
        shown = item if len(item) <= _MAX_SHOWN else f"{item[:_MAX_SHOWN]}…"
        return f"the text {shown!r}"
    if item is None:
        return "null"
    if isinstance(item, int):
        return "a number that is too large"
    return "an object" if isinstance(item, dict) else f"a {type(item).__name__}"
