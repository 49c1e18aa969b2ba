"""Recent values of GPUs. A run keeps its last 15 minutes for views that are opened later."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.gpu.telemetry import Sample

NAMES = ("utilization", "memory_used")
"""The values that are kept: percent and bytes, of all processes."""
STEP_S = 10.0
_STEPS = 90


class History:
    """The last values of all GPUs, at common times.

    Args:
        length: values to keep of each GPU.
    """

    def __init__(self, length: int) -> None:
        self._length = length
        self._times: deque[float] = deque(maxlen=length)
        self._values: dict[tuple[str, int, str], deque[float | None]] = {}

    @property
    def times(self) -> tuple[float, ...]:
        """The times of the values."""
        return tuple(self._times)

    def add(self, seconds: float, values: Mapping[tuple[str, int, str], float | None]) -> None:
        """Add values by host, index and name; a GPU without one gets a gap."""
        known = len(self._times)
        self._times.append(seconds)
        for key in values.keys() - self._values.keys():
            self._values[key] = deque([None] * known, maxlen=self._length)
        for key, kept in self._values.items():
            kept.append(values.get(key))

    def replace(
        self, times: Sequence[float], values: Mapping[tuple[str, int, str], Sequence[float | None]]
    ) -> None:
        """Replace everything, for a source that returns the past with each request."""
        self._times = deque(times, maxlen=self._length)
        self._values = {key: deque(series, maxlen=self._length) for key, series in values.items()}

    def of(self, host: str, index: int, name: str) -> tuple[float | None, ...]:
        """The values of a GPU."""
        return tuple(self._values.get((host, index, name), ()))


class RecentMeans:
    """Means over steps of `STEP_S` seconds, of the last quarter of an hour.

    The steps end at multiples of `STEP_S`, so that those of several hosts have the same times.
    """

    def __init__(self) -> None:
        self._history = History(_STEPS)
        self._indices: set[int] = set()
        self._sums: dict[tuple[str, int, str], tuple[float, float]] = {}
        self._end = STEP_S

    def add(self, sample: Sample) -> None:
        """Add a sample."""
        middle = sample.t - sample.dt / 2
        if middle >= self._end:
            self._end_step(middle)
        for gpu in sample.gpus:
            self._indices.add(gpu.index)
            for name in NAMES:
                value = getattr(gpu, name)
                if value is not None:
                    total, weight = self._sums.get(("", gpu.index, name), (0.0, 0.0))
                    self._sums["", gpu.index, name] = (total + value * sample.dt, weight + sample.dt)

    def to_json(self) -> dict[str, Any]:
        """The times of the steps' ends in seconds since monitoring began, and the means of each GPU."""
        gpus = [
            {"index": index, **{name: self._history.of("", index, name) for name in NAMES}}
            for index in sorted(self._indices)
        ]
        return {"times": self._history.times, "gpus": gpus if self._history.times else ()}

    def _end_step(self, t: float) -> None:
        means = {key: round(total / weight) for key, (total, weight) in self._sums.items() if weight > 0}
        self._history.add(self._end, means)
        self._sums = {}
        # Sampling may have paused for longer than a step: there is a gap then.
        self._end = t // STEP_S * STEP_S + STEP_S
