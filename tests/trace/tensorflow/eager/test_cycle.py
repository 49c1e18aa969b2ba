"""The part of a sequence of updates that repeats."""

from __future__ import annotations

import pytest

from gpuproof.trace.tensorflow.eager.cycle import Cycle, find_cycle


@pytest.mark.parametrize(
    ("keys", "start", "length", "count"),
    [
        ("a", 0, 1, 1),
        ("aaa", 0, 1, 3),
        ("abab", 0, 2, 2),
        ("ababa", 0, 2, 2),
        ("dddddgdddddg", 0, 6, 2),
        ("xaaa", 1, 1, 3),  # the first update changes other weights
        ("xyabab", 2, 2, 2),
        ("aba", 0, 2, 1),
        ("abc", 0, 3, 1),
    ],
)
def test_the_shortest_part_that_repeats_to_the_end(keys: str, start: int, length: int, count: int) -> None:
    assert find_cycle(keys) == Cycle(start, length, count)
