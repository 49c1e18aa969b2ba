"""Finds the step of a training loop in the sequence of its updates: the part that repeats."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cycle:
    """A part of a sequence that repeats until its end.

    Args:
        start: where it begins.
        length: of the part.
        count: how often the whole part is there.
    """

    start: int
    length: int
    count: int


def find_cycle(keys: Sequence[Hashable]) -> Cycle:
    """The shortest part that repeats to the end, after as few others as possible; all if nothing repeats.

    Args:
        keys: of updates, the same if they change the same weights with the same optimizer.
    """
    size = len(keys)
    for start in range(size // 2 + 1):
        for length in range(1, (size - start) // 2 + 1):
            if _repeats(keys[start:], length):
                return Cycle(start, length, (size - start) // length)
    length = next((length for length in range(1, size) if _repeats(keys, length)), size)
    return Cycle(0, length, size // length)


def _repeats(keys: Sequence[Hashable], length: int) -> bool:
    return all(key == other for key, other in zip(keys, keys[length:]))  # noqa: B905
