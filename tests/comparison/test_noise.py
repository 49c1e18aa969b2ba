"""Noise of runs and of windows: hand-computed intervals, and their coverage of known differences."""

from __future__ import annotations

import math
import random

import pytest

from gpuproof.comparison.noise import RUNS, WINDOWS, Change, Estimate, batch_means, change, estimate


def changed(reference: Estimate | None, other: Estimate | None) -> Change:
    assert reference is not None
    assert other is not None
    return change(reference, other)


def test_the_interval_of_runs_is_welchs():
    # Standard errors of 1 % and 1 %, 2 degrees of freedom each: 4 together, so t is 2.776.
    one = estimate([100 - math.sqrt(3), 100.0, 100 + math.sqrt(3)])
    found = changed(one, one)
    assert found.source == RUNS
    assert found.share == 0
    half = 2.776 * math.sqrt(2) * 0.01
    assert (found.low, found.high) == (pytest.approx(math.expm1(-half)), pytest.approx(math.expm1(half)))
    assert found.differs is False


def test_a_difference_above_the_noise_of_runs_differs():
    found = changed(estimate([100, 101, 99]), estimate([90, 91, 89]))
    assert found.share == pytest.approx(-0.1)
    assert found.differs is True


def test_a_single_run_may_vary_as_the_runs_of_the_other_side_do():
    found = changed(estimate([100, 110, 90]), estimate([88], [88.0] * 64))
    assert found.source == RUNS
    assert found.differs is False


def test_without_runs_or_windows_the_noise_is_unknown():
    found = changed(estimate([100]), estimate([90]))
    assert (found.share, found.low, found.high, found.differs) == (pytest.approx(-0.1), None, None, None)


def test_a_side_without_windows_has_the_noise_of_the_other():
    found = changed(estimate([100]), estimate([90], [89, 90, 91] * 20))
    assert found.source == WINDOWS
    assert found.differs is True


def test_windows_are_averaged_in_blocks_and_the_first_are_left_over():
    assert batch_means([*range(11)]) == [3, 6, 9]
    assert batch_means([1.0] * 8) == []
    assert batch_means([1.0, 2.0, 3.0, 4.0], long_windows=True) == [1, 2, 3, 4]
    assert batch_means([1.0, 2.0, 3.0], long_windows=True) == []
    assert len(batch_means([1.0] * 64)) == 8


def test_correlated_windows_have_more_noise_than_independent_ones():
    waves = [100 + 5 * math.sin(index / 8) for index in range(64)]
    shuffled = random.Random(1).sample(waves, len(waves))
    correlated, independent = estimate([100], waves), estimate([100], shuffled)
    assert correlated is not None
    assert independent is not None
    assert (correlated.error or 0) > 2 * (independent.error or 1)


def test_the_inverse_turns_a_rate_into_a_time():
    found = Change(-0.2, -0.5, 0.25, RUNS).inverse
    assert (found.share, found.low, found.high) == (
        pytest.approx(0.25),
        pytest.approx(-0.2),
        pytest.approx(1.0),
    )


@pytest.mark.parametrize("values", [[], [0.0], [1.0, -1.0], [float("nan")]])
def test_what_is_not_positive_is_not_compared(values: list[float]):
    assert estimate(values) is None


def test_equal_runs_without_any_spread_have_no_noise():
    found = changed(estimate([100, 100]), estimate([99, 99]))
    assert (found.low, found.high) == (pytest.approx(-0.01), pytest.approx(-0.01))
    assert found.differs is True


@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_the_interval_covers_the_true_difference_in_about_95_of_100_cases(correlation: float):
    source = random.Random(7)

    def run(mean: float) -> list[float]:
        state, found = source.gauss(0, 1), []
        for _ in range(64):
            state = correlation * state + math.sqrt(1 - correlation**2) * source.gauss(0, 1)
            found.append(mean * (1 + 0.05 * state))
        return found

    covered = 0
    for _ in range(400):
        one, two = run(100), run(90)
        found = changed(estimate([sum(one) / 64], one), estimate([sum(two) / 64], two))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= -0.1 <= found.high
    assert 0.9 <= covered / 400 <= 0.99
