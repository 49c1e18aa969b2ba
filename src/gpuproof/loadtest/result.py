"""What a load did to a server, and to the generator itself."""

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
    """What was measured; it grows while the load runs.

    Args:
        rate: requests a second that were to be sent; None in a closed loop.
        latency: of answers with a status below 400, from when each request was due; those that were given up count
            with the time they had waited by then.
        lag: how late the generator itself sent, where a connection was free.
        outcomes: how many requests ended how: a status such as `200`, or `refused`, `closed`, `timeout`, `malformed`.
        seconds: from the first request's due time to the last one's; from first to last answer in a closed loop.
        cpu_share: of one core, that the generator took.
        interrupted: Ctrl-C came before the end.
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
        """Requests that came to an end, whichever."""
        return self.outcomes.total()

    @property
    def good(self) -> int:
        """Answers with a status below 400."""
        return sum(count for outcome, count in self.outcomes.items() if succeeded(outcome))

    @property
    def throughput(self) -> float:
        """Good answers a second."""
        return self.good / self.seconds if self.seconds else 0.0

    @property
    def generator_limited(self) -> bool:
        """Whether the figures tell of the generator more than of the server."""
        late = self.lag.percentile(99)
        return self.cpu_share > _BUSY or (late > _LATE_S and late > _LATE_SHARE * self.latency.percentile(99))

    def share_missing(self, target: float) -> float:
        """The share of requests, 0 to 1, that failed or took longer than the target in seconds."""
        if not self.sent:
            return 1.0
        timed_out = self.outcomes["timeout"]
        # Time-outs are in the histogram too, but they fail however short they were.
        slow = self.latency.share_above(target) * self.latency.count
        failed = self.sent - self.good - timed_out
        return min(1.0, (max(slow, timed_out) + failed) / self.sent)

    def as_json(self) -> dict[str, Any]:
        """For programs: seconds and requests a second."""
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
    """Percentiles, mean and highest, in seconds."""
    found = {f"p{percent:g}": round(histogram.percentile(percent), 6) for percent in PERCENTILES}
    return {**found, "mean": round(histogram.mean, 6), "highest": round(histogram.highest, 6)}
