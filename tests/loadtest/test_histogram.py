"""Latencies in bounded memory."""

from __future__ import annotations

import random

import pytest

from gpuproof.loadtest import Histogram


def _of(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.record(value)
    return histogram


@pytest.mark.parametrize("percent", [1, 25, 50, 90, 99, 99.9, 100])
def test_percentiles_are_those_of_the_sorted_values_within_half_a_percent(percent: float) -> None:
    dice = random.Random(7)
    values = sorted(dice.lognormvariate(-5, 2) for _ in range(20_000))
    rank = max(1, -(-len(values) * percent // 100))
    assert _of(values).percentile(percent) == pytest.approx(values[int(rank) - 1], rel=0.005, abs=2e-6)


def test_a_percentile_never_exceeds_the_highest_value() -> None:
    assert _of([1.2345678]).percentile(99) == 1.2345678


def test_an_empty_histogram_returns_zeros() -> None:
    assert (Histogram().percentile(99), Histogram().mean, Histogram().share_above(1)) == (0, 0, 0)


def test_values_beyond_the_range_are_counted_as_its_end_and_kept_as_highest() -> None:
    histogram = _of([1e6, -1.0])
    assert (histogram.count, histogram.highest, histogram.lowest) == (2, 1e6, 0.0)


def test_the_share_above_a_bound_is_that_of_the_values() -> None:
    assert _of([0.001] * 97 + [0.2] * 3).share_above(0.05) == pytest.approx(0.03)


def test_two_added_count_as_one_that_saw_both() -> None:
    left, right = _of([0.001, 0.002]), _of([0.5])
    left.add(right)
    both = _of([0.001, 0.002, 0.5])
    assert [left.percentile(p) for p in (50, 99)] == [both.percentile(p) for p in (50, 99)]
    assert (left.count, left.lowest, left.highest, left.mean) == (3, 0.001, 0.5, both.mean)
