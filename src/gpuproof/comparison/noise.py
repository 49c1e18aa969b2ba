"""How much of a difference between two measurements is noise.

Of several runs, the noise is the spread of their values. Of a single run, it is the spread of its own windows: neighbouring windows are alike,
because caches, clocks and the data change slowly, so they are averaged in blocks whose number and length grow with the square root of the
number of windows (batch means: Flegal and Jones, 2010, https://doi.org/10.1214/09-AOS735). The spread of windows leaves out what
differs between runs, such as the machine, so it is a lower bound of the noise between them.

The interval of the ratio of two means follows Welch (1947), on logarithms: comparing means by intervals, and stating the size of the
effect, are what Georges et al. (2007, https://doi.org/10.1145/1297027.1297033) and Kalibera and Jones (2013,
https://doi.org/10.1145/2464157.2464160) advise for measurements of programs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Literal

RUNS, WINDOWS = "runs", "windows"
Source = Literal["runs", "windows"]
CONFIDENCE = 0.95

_FEWEST_WINDOWS = 9
"""Three blocks of three."""
_FEWEST_LONG_WINDOWS = 4
"""Windows that are long enough to be blocks themselves."""
_QUANTILES = (
    *(
        12.706,
        4.303,
        3.182,
        2.776,
        2.571,
        2.447,
        2.365,
        2.306,
        2.262,
        2.228,
        2.201,
        2.179,
        2.160,
        2.145,
        2.131,
    ),
    *(
        2.120,
        2.110,
        2.101,
        2.093,
        2.086,
        2.080,
        2.074,
        2.069,
        2.064,
        2.060,
        2.056,
        2.052,
        2.048,
        2.045,
        2.042,
    ),
)
"""Student's t for a two-sided interval of 95 %, for 1 to 30 degrees of freedom: NIST/SEMATECH e-Handbook, table 1.3.6.7.2."""
_LARGE_SAMPLE = 1.960


@dataclass(frozen=True)
class Estimate:
    """A measured mean with its error.

    Args:
        mean: positive.
        error: standard error of the mean, as a share of it; `None` if it is unknown.
        spread: standard deviation of single values, as a share of the mean; of runs only.
        degrees: of freedom of the error.
        source: what the error was estimated from.
    """

    mean: float
    error: float | None = None
    spread: float | None = None
    degrees: float = 0.0
    source: Source | None = None


@dataclass(frozen=True)
class Change:
    """How a mean differs from that of the reference, as shares of the latter: 0.05 is 5 % more.

    Args:
        low: lower end of the interval that contains the true change with 95 % confidence; `high` its upper end. `None` if the noise is
            unknown.
        source: what the noise was estimated from.
    """

    share: float
    low: float | None = None
    high: float | None = None
    source: Source | None = None

    @property
    def differs(self) -> bool | None:
        """Whether it exceeds the noise; `None` if the noise is unknown."""
        if self.low is None or self.high is None:
            return None
        return self.low > 0 or self.high < 0

    @property
    def inverse(self) -> Change:
        """The change of 1 / value: of the time of an example, if this is that of examples per second."""

        def invert(share: float | None) -> float | None:
            return None if share is None else 1 / (1 + share) - 1

        inverted = invert(self.share)
        assert inverted is not None
        return Change(inverted, invert(self.high), invert(self.low), self.source)


def estimate(
    values: Sequence[float], windows: Sequence[float] = (), *, long_windows: bool = False
) -> Estimate | None:
    """The mean of the runs of one side; `None` without a positive value.

    Args:
        values: one for each run.
        windows: of the only run, rates or times of consecutive windows of about equal length.
        long_windows: whether each has 10 seconds or more.
    """
    known = [value for value in values if math.isfinite(value) and value > 0]
    if not known or len(known) < len(values):
        return None
    mean = fmean(known)
    if len(known) > 1:
        spread = stdev(known) / mean
        return Estimate(mean, spread / math.sqrt(len(known)), spread, len(known) - 1, RUNS)
    blocks = batch_means(windows, long_windows=long_windows)
    if not blocks or fmean(blocks) <= 0:
        return Estimate(mean)
    error = stdev(blocks) / fmean(blocks) / math.sqrt(len(blocks))
    return Estimate(mean, error, None, len(blocks) - 1, WINDOWS)


def batch_means(windows: Sequence[float], *, long_windows: bool = False) -> list[float]:
    """Means of blocks of neighbouring windows; empty for too few windows. The first windows, which warm up, may be left over.

    Args:
        long_windows: whether a few windows may be blocks themselves.
    """
    if len(windows) < (_FEWEST_LONG_WINDOWS if long_windows else _FEWEST_WINDOWS):
        return []
    length = math.isqrt(len(windows)) if len(windows) >= _FEWEST_WINDOWS else 1
    first = len(windows) % length
    return [fmean(windows[start : start + length]) for start in range(first, len(windows), length)]


def change(reference: Estimate, other: Estimate) -> Change:
    """The change from the reference, with an interval if the noise of either side is known."""
    log_ratio = math.log(other.mean / reference.mean)
    share = other.mean / reference.mean - 1
    first, second = _completed(reference, other), _completed(other, reference)
    if first.error is None or second.error is None:
        return Change(share)
    variance = first.error**2 + second.error**2
    half = _quantile(_degrees(first, second)) * math.sqrt(variance)
    low, high = math.expm1(log_ratio - half), math.expm1(min(log_ratio + half, 700.0))
    source = RUNS if RUNS in (first.source, second.source) else WINDOWS
    return Change(share, low, high, source)


def _completed(side: Estimate, other: Estimate) -> Estimate:
    """A single run with the spread of the other side's runs, which is what a second run would show; else with the other's windows."""
    if side.source == RUNS or other.error is None:
        return side
    if other.spread is not None:
        return replace(
            side, error=max(side.error or 0.0, other.spread), degrees=other.degrees, source=other.source
        )
    if side.error is None:
        return replace(side, error=other.error, degrees=other.degrees, source=other.source)
    return side


def _degrees(first: Estimate, second: Estimate) -> float:
    """Welch and Satterthwaite's degrees of freedom."""
    one, two = (first.error or 0.0) ** 2, (second.error or 0.0) ** 2
    if one + two == 0:
        return min(first.degrees, second.degrees)
    return (one + two) ** 2 / (one**2 / first.degrees + two**2 / second.degrees)


def _quantile(degrees: float) -> float:
    whole = max(int(degrees), 1)
    return _QUANTILES[whole - 1] if whole <= len(_QUANTILES) else _LARGE_SAMPLE + 2.5 / whole
