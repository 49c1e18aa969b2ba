"""What the GPUs of one host did, from the values of CloudWatch. Makes no requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

DELAY_S = 300.0
"""Seconds after which values of CloudWatch certainly have arrived: those of the last minutes may be missing."""


class Samples(NamedTuple):
    """Values of one metric, in the order of time.

    Attributes:
        times: starts of the periods, in seconds since the epoch.
    """

    times: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def within(self, start: float, end: float) -> Samples:
        """Those whose period begins in a time."""
        kept = [
            (time, value) for time, value in zip(self.times, self.values, strict=True) if start <= time < end
        ]
        return Samples(tuple(time for time, _ in kept), tuple(value for _, value in kept))


@dataclass(frozen=True)
class HostUsage:
    """What the GPUs of one host did. Utilization is the sum over the GPUs: from 0 to 100 times their number.

    Args:
        host: `algo-1`, or `gpu 0` where each GPU has metrics of its own.
        gpus: how many GPUs; None if unknown.
        period: seconds between two values.
        expected: how many values there would be if none was missing.
        mean, p90: of the utilization; None without a value.
        typical: the median of the utilization while the GPUs were busy; None if they never were.
        peak: the largest value.
        busy_s: seconds of work, summed over the GPUs.
        memory_peak: largest used memory, in percent of the memory of one GPU; None if it was not published.
        cpu_cores: mean number of busy CPU cores; None if it was not published.
        gpu: the utilization over time.
    """

    host: str
    gpus: int | None
    period: float
    expected: int
    mean: float | None = None
    p90: float | None = None
    typical: float | None = None
    peak: float | None = None
    busy_s: float = 0.0
    memory_peak: float | None = None
    cpu_cores: float | None = None
    gpu: Samples = field(default_factory=Samples, repr=False)
    memory: Samples = field(default_factory=Samples, repr=False)
    cpu: Samples = field(default_factory=Samples, repr=False)

    @property
    def coverage(self) -> float:
        """The share of the time for which there are values, from 0 to 1."""
        return min(1.0, len(self.gpu.values) / self.expected) if self.expected else 0.0


_BUSY = 5.0
"""Utilization in percent from which a period counts as busy, for the median of busy periods."""


def host_usage(
    host: str,
    gpus: int | None,
    period: float,
    seconds: float,
    gpu: Samples,
    largest: Samples | None = None,
    memory: Samples = Samples(),  # noqa: B008 - a tuple
    cpu: Samples = Samples(),  # noqa: B008 - a tuple
) -> HostUsage:
    """The usage of a host.

    Args:
        seconds: how long the program could use the GPUs.
        gpu: averages of the utilization; `largest` the maxima of the same periods, if they may differ.
        memory: maxima of the used memory.
        cpu: averages, 100 for each busy core.
    """
    # The first and the last period are incomplete, and may lack a value.
    expected = max(1, math.floor(seconds / period) - 1)
    values = gpu.values
    busy = [value for value in values if value >= _BUSY]
    peaks = largest.values if largest is not None and largest.values else values
    return HostUsage(
        host=host,
        gpus=gpus,
        period=period,
        expected=expected,
        mean=sum(values) / len(values) if values else None,
        p90=_quantile(values, 0.9) if values else None,
        typical=_quantile(busy, 0.5) if busy else None,
        peak=max(peaks) if peaks else None,
        busy_s=sum(values) / 100 * period,
        memory_peak=max(memory.values) if memory.values else None,
        cpu_cores=sum(cpu.values) / len(cpu.values) / 100 if cpu.values else None,
        gpu=gpu,
        memory=memory,
        cpu=cpu,
    )


def _quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
