"""Corrections by the user's own runs, against what follows by hand from their formula."""

from __future__ import annotations

from math import exp, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuproof.planning.correction import correction
from gpuproof.planning.estimates import Interval

WIDE = Interval(70.0, 100.0, 150.0)
RATIOS = st.lists(st.floats(0.2, 5.0), min_size=5, max_size=40)


def test_four_cases_are_too_few() -> None:
    assert correction("time", [1.0] * 4) is None


def test_five_equal_cases_count_half() -> None:
    found = correction("time", [1.2] * 5)
    assert found is not None
    assert found.weight == 0.5
    assert found.bias == pytest.approx(0.5 * log(1.2))
    rest = 0.5 * log(1.2)
    assert (found.low, found.high) == (pytest.approx(rest), pytest.approx(rest))
    applied = found.applied(WIDE)
    assert applied.value == pytest.approx(100 * 1.2**0.5)
    assert applied.high == pytest.approx(applied.value * exp(0.5 * log(1.5) + 0.5 * rest))


def test_the_ninth_of_nine_and_the_eighteenth_of_nineteen_are_the_upper_limit() -> None:
    nine = correction("time", [exp(i / 100) for i in range(-4, 5)])
    assert nine is not None
    assert (nine.bias, nine.low, nine.high) == (pytest.approx(0), pytest.approx(-0.04), pytest.approx(0.04))
    nineteen = correction("time", [exp(i / 100) for i in range(-9, 10)])
    assert nineteen is not None
    assert (nineteen.low, nineteen.high) == (pytest.approx(-0.08), pytest.approx(0.08))


def test_many_exact_cases_narrow_to_the_floor_and_no_further() -> None:
    found = correction("time", [1.0] * 1000)
    assert found is not None
    applied = found.applied(WIDE)
    assert (applied.low, applied.high) == (pytest.approx(100 / exp(0.05)), pytest.approx(100 * exp(0.05)))
    memory = correction("memory", [1.0] * 1000)
    assert memory is not None
    assert memory.applied(WIDE).high == pytest.approx(100 * exp(0.02))


def test_errors_larger_than_the_built_in_range_widen_it() -> None:
    found = correction("time", [0.3, 0.5, 1.0, 2.0, 3.0] * 4)
    assert found is not None
    applied = found.applied(WIDE)
    assert applied.low < WIDE.low
    assert applied.high > WIDE.high


@given(RATIOS, st.floats(1e-3, 1e12))
def test_the_corrected_value_is_between_the_estimate_and_what_was_measured(
    ratios: list[float], value: float
) -> None:
    found = correction("memory", ratios)
    assert found is not None
    applied = found.applied(Interval(value * 0.9, value, value * 1.2))
    assert applied.low < applied.value < applied.high
    assert min(1.0, *ratios) * 0.999 <= applied.value / value <= max(1.0, *ratios) * 1.001


def test_an_estimate_of_zero_stays() -> None:
    found = correction("time", [1.2] * 5)
    assert found is not None
    assert found.applied(Interval(0, 0, 0)) == Interval(0, 0, 0)
