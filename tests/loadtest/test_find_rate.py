"""Finding the highest rate, against servers that are formulas."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuproof.loadtest import Goal, Result, find_rate
from gpuproof.loadtest.find_rate import MAX_RATE, MAX_TRIALS

GOAL = Goal(0.05)


def _server(capacity: float, *, limited_above: float = 1e9) -> Callable[[float, float], Result]:
    """Answers in 1 ms up to its capacity, in a second above."""

    def measure(rate: float, seconds: float) -> Result:
        result = Result(rate=rate, seconds=seconds)
        for _ in range(100):
            result.latency.record(0.001 if rate <= capacity else 1.0)
            result.lag.record(0.0 if rate <= limited_above else 0.9)
        result.outcomes["200"] = 100
        return result

    return measure


@pytest.mark.parametrize("capacity", [3.0, 90.0, 1_000.0, 7_777.0])
@pytest.mark.parametrize("first", [10.0, 500.0])
def test_the_rate_found_is_within_a_tenth_below_the_capacity(capacity: float, first: float) -> None:
    found = find_rate(_server(capacity), GOAL, first, 9.0)
    assert found.best
    assert 0.9 * capacity <= found.best.rate <= capacity
    assert len(found.trials) <= MAX_TRIALS


def test_the_last_trial_is_the_long_one() -> None:
    lengths: list[float] = []

    def measure(rate: float, seconds: float) -> Result:
        lengths.append(seconds)
        return _server(1000)(rate, seconds)

    find_rate(measure, GOAL, 500, 9.0)
    assert lengths[-1] == 9.0
    assert set(lengths[:-1]) == {3.0}


def test_a_rate_that_holds_for_a_short_while_only_is_not_the_answer() -> None:
    def measure(rate: float, seconds: float) -> Result:
        return _server(1000 if seconds < 9 else 700)(rate, seconds)

    found = find_rate(measure, GOAL, 500, 9.0)
    assert found.best
    assert 500 < found.best.rate <= 700


def test_a_server_that_never_meets_the_target_has_no_rate_in_bounded_time() -> None:
    found = find_rate(_server(0), GOAL, 1000, 9.0)
    assert found.best is None
    assert len(found.trials) <= MAX_TRIALS


def test_it_never_requests_more_than_can_be_sent() -> None:
    found = find_rate(_server(1e9), GOAL, 1000, 9.0)
    assert found.best
    assert found.best.rate == MAX_RATE


def test_a_generator_that_could_not_keep_up_is_named() -> None:
    assert find_rate(_server(2000, limited_above=2000), GOAL, 500, 9.0).generator_limited
    assert not find_rate(_server(2000), GOAL, 500, 9.0).generator_limited


def test_ctrl_c_keeps_the_best_of_the_whole_trials() -> None:
    def measure(rate: float, seconds: float) -> Result:
        result = _server(1e9)(rate, seconds)
        result.interrupted = rate > 3000
        return result

    found = find_rate(measure, GOAL, 1000, 9.0)
    assert found.interrupted
    assert found.best
    assert found.best.rate == 2000


@pytest.mark.parametrize(("failures", "met"), [(0, True), (1, True), (2, False)])
def test_failures_count_as_requests_that_never_came_in_time(failures: int, met: bool) -> None:
    result = _server(1e9)(1, 1)
    result.outcomes = type(result.outcomes)({"200": 100 - failures, "503": failures})
    assert GOAL.met_by(result) is met


def test_nothing_sent_meets_nothing() -> None:
    assert not GOAL.met_by(Result())
