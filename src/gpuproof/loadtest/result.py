"""Measurements of a load test, of the server and of the generator."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from gpuproof.loadtest.histogram import Histogram

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_LATE_S = 0.001
_LATE_SHARE = 0.25
_BUSY = 0.95


@dataclass
class Result:
    """Measurements, updated while the load runs.

    Args:
        rate: scheduled requests per second; None in a closed loop.
        latency: of responses with a status below 400, from the due time of each request; includes requests that timed out,
            with the time they had waited.
        lag: how late the generator itself sent requests although a connection was idle.
        outcomes: number of requests by outcome: a status such as `200`, or `refused`, `closed`, `timeout`, `malformed`.
        seconds: from the first to the last due time; in a closed loop, from the first to the last response.
        cpu_share: share of one core that the generator used.
        interrupted: whether Ctrl-C ended the load.
    """

    rate: float | None = None
    latency: Histogram = field(default_factory=Histogram)
    lag: Histogram = field(default_factory=Histogram)
    outcomes: Counter[str] = field(default_factory=Counter[str])
    seconds: float = 0.0
    cpu_share: float = 0.0
    interrupted: bool = False

    @property
    def sent(self) -> int:
        """Number of requests that have ended, with any outcome."""
        return self.outcomes.total()

    @property
    def good(self) -> int:
        """Number of responses with a status below 400."""
        return sum(count for outcome, count in self.outcomes.items() if succeeded(outcome))

    @property
    def throughput(self) -> float:
        """Responses with a status below 400 per second."""
        return self.good / self.seconds if self.seconds else 0.0

    @property
    def generator_limited(self) -> bool:
        """Whether the generator rather than the server limited the results."""
        late = self.lag.percentile(99)
        return self.cpu_share > _BUSY or (late > _LATE_S and late > _LATE_SHARE * self.latency.percentile(99))

    def share_missed(self, target: float) -> float:
        """The share of requests, 0 to 1, that failed or took longer than the target in seconds."""
        if not self.sent:
            return 1.0
        timed_out = self.outcomes["timeout"]
        # The histogram includes requests that timed out, which fail regardless of their duration.
        slow = self.latency.share_above(target) * self.latency.count
        failed = self.sent - self.good - timed_out
        return min(1.0, (max(slow, timed_out) + failed) / self.sent)

    def as_json(self) -> dict[str, Any]:
        """The result as JSON; times are in seconds, rates in requests per second."""
        return {
            "rate": self.rate,
            "seconds": round(self.seconds, 3),
            "requests": self.sent,
            "throughput": round(self.throughput, 2),
            "outcomes": dict(sorted(self.outcomes.items())),
            "latency": spread(self.latency),
            "generator": {
                "lag": spread(self.lag),
                "cpu_share": round(self.cpu_share, 3),
                "limited": self.generator_limited,
            },
            "interrupted": self.interrupted,
        }


def succeeded(outcome: str) -> bool:
    """Whether an outcome is a status below 400."""
    return outcome.isdigit() and int(outcome) < 400


def spread(histogram: Histogram) -> dict[str, float]:
    """Percentiles, mean and highest value, in seconds."""
    found = {f"p{percent:g}": round(histogram.percentile(percent), 6) for percent in PERCENTILES}
    return {**found, "mean": round(histogram.mean, 6), "highest": round(histogram.highest, 6)}
