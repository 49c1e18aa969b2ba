"""Histogram of latencies with bounded memory and an error of at most 0.4 %."""

from __future__ import annotations

from array import array

_BITS = 8
_SPLIT = 1 << _BITS
"""Buckets per octave: a value is off by at most half a bucket, 1 part in 512, and counts as its bucket's upper end."""
_MOST_US = 1 << 32
"""71 minutes; larger values count as this."""


class Histogram:
    """Counts of values by size, in buckets that grow with the value.

    The layout is that of Gil Tene's HdrHistogram (https://hdrhistogram.github.io/HdrHistogram/): linear within each
    power of two. The PyPI package of that name requires a C build, and only this part of it is needed. Values are in
    seconds, with a resolution of a microsecond.
    """

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * (_index(_MOST_US) + 1)))
        self._total = 0.0
        self.count = 0
        self.lowest = 0.0
        self.highest = 0.0

    def record(self, seconds: float) -> None:
        """Record a value; negative values count as 0."""
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
        """Mean in seconds; 0 without values."""
        return self._total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """The smallest value that `percent` percent of all values do not exceed, in seconds; 0 without values.

        It is at most a microsecond below the exact percentile, at most 0.4 % above it, and not above the highest value.
        """
        wanted = max(1, -(-self.count * percent // 100))
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                return min(_upper_end(index) / 1e6, self.highest)
        return self.highest

    def share_above(self, seconds: float) -> float:
        """The share of values above a bound, 0 to 1; values in the bucket of the bound do not count."""
        if not self.count:
            return 0.0
        first = _index(min(int(seconds * 1e6), _MOST_US)) + 1
        return sum(self._counts[first:]) / self.count

    def add(self, other: Histogram) -> None:
        """Add all values of another histogram."""
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
