"""The highest rate that a server takes without missing its latency target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuproof.loadtest.result import Result

Measure = Callable[[float, float], Result]
"""Loads the server at a rate (requests a second) for so many seconds."""

CLOSE_ENOUGH = 1.05
"""The search ends when the lowest rate that missed is within 5 % of the highest that met."""
MOST_RATE = 50_000.0
"""Requests a second; one core generates fewer."""
MOST_TRIALS = 16
_MOST_LONG_TRIALS = 4
_LOWEST_RATE = 0.1
_ENOUGH_REQUESTS = 100
_STEP_DOWN = 0.8


@dataclass(frozen=True)
class Goal:
    """What a rate must meet.

    Args:
        seconds: the latency target.
        share: of all requests, 0 to 1, that must be answered well and within it.
    """

    seconds: float
    share: float = 0.99

    def met_by(self, result: Result) -> bool:
        """Whether it was met: a request that failed counts as one that never came in time."""
        return result.sent > 0 and result.share_missing(self.seconds) <= 1 - self.share


@dataclass(frozen=True)
class Trial:
    """One rate that was tried.

    Args:
        rate: requests a second.
        met: whether the goal was met.
        result: all that was measured.
    """

    rate: float
    met: bool
    result: Result


@dataclass(frozen=True)
class Found:
    """The end of a search.

    Args:
        best: the highest rate that met the goal; None where none did.
        trials: all that was tried, in order.
        generator_limited: a rate was missed because the generator could not send faster.
        interrupted: Ctrl-C ended the search.
    """

    best: Trial | None
    trials: tuple[Trial, ...]
    generator_limited: bool = False
    interrupted: bool = False


def find_rate(
    measure: Measure, goal: Goal, first: float, seconds: float, told: Callable[[Trial], None] = lambda _: None
) -> Found:
    """Double or halve the rate until it is bracketed, then bisect; the last trial is a long one at the rate found.

    It ends after 16 trials at most. The trials of the search take a third of `seconds` each, or longer at low rates,
    so that there are 100 requests to count, but never more than `seconds`.

    Args:
        measure: loads the server.
        goal: what must be met.
        first: the rate to begin with, in requests a second.
        seconds: the length of the last trial.
        told: of every trial when it has ended.
    """
    trials: list[Trial] = []

    def attempt(rate: float, length: float) -> Trial:
        result = measure(rate, length)
        trial = Trial(rate, goal.met_by(result), result)
        trials.append(trial)
        told(trial)
        return trial

    def ended(best: Trial | None) -> Found:
        limited = any(not one.met and one.result.generator_limited for one in trials)
        return Found(best, tuple(trials), limited, trials[-1].result.interrupted)

    met: Trial | None = None
    missed: float | None = None
    rate = first
    while len(trials) < MOST_TRIALS - _MOST_LONG_TRIALS:
        trial = attempt(rate, min(seconds, max(seconds / 3, _ENOUGH_REQUESTS / rate)))
        if trial.result.interrupted:
            return ended(_best_below_all_misses(trials[:-1]))
        if trial.met:
            met = trial
        else:
            missed = rate
        if met and missed and missed / met.rate <= CLOSE_ENOUGH:
            break
        if trial.met and rate >= MOST_RATE:
            break
        rate = min(MOST_RATE, _next_rate(met.rate if met else None, missed))
        if rate < _LOWEST_RATE:
            return ended(None)
    if met is None:
        return ended(None)
    # What holds for a short while may not hold for longer.
    rate = met.rate
    for _ in range(_MOST_LONG_TRIALS):
        last = attempt(rate, seconds)
        if last.result.interrupted:
            return ended(_best_below_all_misses(trials[:-1]))
        if last.met:
            return ended(last)
        rate *= _STEP_DOWN
    return ended(_best_below_all_misses(trials))


def _best_below_all_misses(trials: list[Trial]) -> Trial | None:
    lowest_miss = min((one.rate for one in trials if not one.met), default=float("inf"))
    met = [one for one in trials if one.met and one.rate < lowest_miss]
    return max(met, key=lambda one: one.rate, default=None)


def _next_rate(met: float | None, missed: float | None) -> float:
    if met is None:
        assert missed is not None
        return missed / 2
    if missed is None:
        return met * 2
    return (met * missed) ** 0.5
