"""Latencies in bounded memory, each within 0.4 % of what was recorded."""

from __future__ import annotations

from array import array

_BITS = 8
_SPLIT = 1 << _BITS
"""Buckets an octave: a value is off by at most half a bucket, 1 part in 512, and counts as its bucket's upper end."""
_MOST_US = 1 << 32
"""71 minutes; longer values count as this."""


class Histogram:
    """Counts of values by size, in buckets that grow with the value.

    The layout is that of Gil Tene's HdrHistogram (https://hdrhistogram.github.io/HdrHistogram/): linear within each
    power of two. The PyPI package of that name is built from C and brings a build tool along; this is all that is
    needed of it. Values are seconds, with a resolution of a microsecond.
    """

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * (_index(_MOST_US) + 1)))
        self._total = 0.0
        self.count = 0
        self.lowest = 0.0
        self.highest = 0.0

    def record(self, seconds: float) -> None:
        """Count one value; a negative one counts as 0."""
        if seconds < 0:
            seconds = 0.0
        if not self.count or seconds < self.lowest:
            self.lowest = seconds
        if seconds > self.highest:
            self.highest = seconds
        self.count += 1
        self._total += seconds
        self._counts[_index(min(int(seconds * 1e6), _MOST_US))] += 1

    @property
    def mean(self) -> float:
        """Seconds; 0 where nothing was recorded."""
        return self._total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The smallest value that so many percent of all values do not exceed, in seconds; 0 where there are none.

        It is never below the true one by more than a microsecond, nor above it by more than 0.4 %, nor above the
        highest.
        """
        wanted = max(1, -(-self.count * percent // 100))
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_upper_end(index) / 1e6, self.highest)
        return self.highest

    def share_above(self, seconds: float) -> float:
        """The share of values above a bound, 0 to 1; those in the bound's own bucket do not count."""
        if not self.count:
            return 0.0
        first = _index(min(int(seconds * 1e6), _MOST_US)) + 1
        return sum(self._counts[first:]) / self.count

    def add(self, other: Histogram) -> None:
        """Count all that another one counted."""
        if not other.count:
            return
        self.lowest = min(self.lowest, other.lowest) if self.count else other.lowest
        self.highest = max(self.highest, other.highest)
        self.count += other.count
        self._total += other._total
        for index, count in enumerate(other._counts):
            if count:
                self._counts[index] += count


def _index(microseconds: int) -> int:
    if microseconds < _SPLIT:
        return microseconds
    shift = microseconds.bit_length() - _BITS - 1
    return (shift << _BITS) + (microseconds >> shift)


def _upper_end(index: int) -> int:
    if index < 2 * _SPLIT:
        return index
    shift = (index >> _BITS) - 1
    return ((index - (shift << _BITS) + 1) << shift) - 1
