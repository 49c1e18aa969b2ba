"""Searches for the highest rate at which a server meets its latency target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.loadtest.result import Result

Measure = Callable[[float, float], Result]
"""Loads the server at a rate, in requests per second, for a number of seconds."""

PRECISION = 1.05
"""The search ends when the lowest rate that missed the goal is within 5 % of the highest that met it."""
MAX_RATE = 50_000.0
"""Requests per second; one core cannot generate more."""
MAX_TRIALS = 16
_MAX_LONG_TRIALS = 4
_MIN_RATE = 0.1
_MIN_REQUESTS = 100
_STEP_DOWN = 0.8


@dataclass(frozen=True)
class Goal:
    """Condition that a rate must meet.

    Args:
        share: share of all requests, 0 to 1, that must succeed within it.
    """

    seconds: float
    share: float = 0.99

    def met_by(self, result: Result) -> bool:
        """Whether a result meets the goal; failed requests count as too late."""
        return result.sent > 0 and result.share_missed(self.seconds) <= 1 - self.share


@dataclass(frozen=True)
class Trial:
    """Measurement at one rate.

    Args:
        rate: requests per second.
        met: whether the goal was met.
    """

    rate: float
    met: bool
    result: Result


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Args:
        best: the trial with the highest rate that met the goal; None if none did.
        trials: all trials, in order.
        generator_limited: whether a trial missed the goal because the generator could not send faster.
        interrupted: whether Ctrl-C ended the search.
    """

    best: Trial | None
    trials: tuple[Trial, ...]
    generator_limited: bool = False
    interrupted: bool = False


def find_rate(
    measure: Measure,
    goal: Goal,
    first: float,
    seconds: float,
    on_trial: Callable[[Trial], None] = lambda _: None,
) -> SearchResult:
    """Double or halve the rate until it is bracketed, then bisect; the last trial is a long one at the rate found.

    Runs at most 16 trials. Trials during the search take a third of `seconds`, or longer at low rates to send at least
    100 requests, but never more than `seconds`.

    Args:
        first: the first rate, in requests per second.
        seconds: duration of the last trial.
        on_trial: called with every completed trial.
    """
    trials: list[Trial] = []

    def run_trial(rate: float, length: float) -> Trial:
        result = measure(rate, length)
        trial = Trial(rate, goal.met_by(result), result)
        trials.append(trial)
        on_trial(trial)
        return trial

    def finish(best: Trial | None) -> SearchResult:
        limited = any(not trial.met and trial.result.generator_limited for trial in trials)
        return SearchResult(best, tuple(trials), limited, trials[-1].result.interrupted)

    met: Trial | None = None
    missed: float | None = None
    rate = first
    while len(trials) < MAX_TRIALS - _MAX_LONG_TRIALS:
        trial = run_trial(rate, min(seconds, max(seconds / 3, _MIN_REQUESTS / rate)))
        if trial.result.interrupted:
            return finish(_best_below_all_misses(trials[:-1]))
        if trial.met:
            met = trial
        else:
            missed = rate
        if met and missed and missed / met.rate <= PRECISION:
            break
        if trial.met and rate >= MAX_RATE:
            break
        rate = min(MAX_RATE, _next_rate(met.rate if met else None, missed))
        if rate < _MIN_RATE:
            return finish(None)
    if met is None:
        return finish(None)
    # A rate that meets the goal for a short time may not do so for longer.
    rate = met.rate
    for _ in range(_MAX_LONG_TRIALS):
        last = run_trial(rate, seconds)
        if last.result.interrupted:
            return finish(_best_below_all_misses(trials[:-1]))
        if last.met:
            return finish(last)
        rate *= _STEP_DOWN
    return finish(_best_below_all_misses(trials))


def _best_below_all_misses(trials: list[Trial]) -> Trial | None:
    lowest_miss = min((trial.rate for trial in trials if not trial.met), default=float("inf"))
    met = [trial for trial in trials if trial.met and trial.rate < lowest_miss]
    return max(met, key=lambda trial: trial.rate, default=None)


def _next_rate(met: float | None, missed: float | None) -> float:
    if met is None:
        assert missed is not None
        return missed / 2
    if missed is None:
        return met * 2
    return (met * missed) ** 0.5
