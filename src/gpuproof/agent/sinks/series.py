"""Computes the points of a run's series: means over some seconds of samples, and what the script's processes have counted since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Callable

from gpuproof.agent.sinks.metrics import Point, Value
from gpuproof.gpu.nvml import GpuReading
from gpuproof.gpu.telemetry import Sample

Documents = Callable[[], Iterable[Mapping[str, Any]]]
"""Reads the files of all processes."""


class Series:
    """Collects samples until `take` returns them as a point.

    Args:
        counts: what `gpuproof.runtime.log_throughput` wrote.
        steps: what the hooks of training steps wrote.
    """

    def __init__(self, counts: Documents, steps: Documents) -> None:
        self._counts = counts
        self._steps = steps
        self._sums: dict[tuple[str, int], tuple[float, float]] = {}
        self._counted = (0.0, 0.0)
        self._stepped: dict[str, float] = {}

    def add(self, sample: Sample) -> None:
        """Add a sample; the first of a run, before the script did anything, has no weight."""
        for gpu in sample.gpus:
            for name, value in _values(gpu):
                total, weight = self._sums.get((name, gpu.index), (0.0, 0.0))
                self._sums[name, gpu.index] = (total + value * sample.dt, weight + sample.dt)

    def take(self, at: float, seconds: float) -> Point:
        """Return the point of the samples since the last one.

        Args:
            at: seconds since the epoch.
            seconds: since monitoring began.
        """
        values = [
            Value(name, index, round(total / weight, 4))
            for (name, index), (total, weight) in sorted(self._sums.items())
            if weight > 0
        ]
        self._sums = {}
        # The script may write anything into these files.
        with suppress(LookupError, TypeError, ValueError):
            values += list(self._throughput())
        with suppress(LookupError, TypeError, ValueError, AttributeError):
            values += list(self._split())
        return Point(at, seconds, tuple(values))

    def _throughput(self) -> Iterator[Value]:
        examples = last = 0.0
        for count in self._counts():
            if count.get("first") is not None:
                examples += count["examples"]
                last = max(last, count["last"])
        (before, since), self._counted = self._counted, (examples, last)
        # The first count has no beginning.
        if since and last > since and examples >= before:
            yield Value("throughput", None, round((examples - before) / (last - since), 3))

    def _split(self) -> Iterator[Value]:
        """Step time and shares of the phases since the last point, over all processes."""
        totals: dict[str, float] = defaultdict(float)
        for document in self._steps():
            totals["steps"] += document["steps"]
            totals["seconds"] += document["seconds"]
            for phase, spent in document["phases"].items():
                totals[f"phase {phase}"] += spent
        before, self._stepped = self._stepped, dict(totals)
        new = {name: total - before.get(name, 0.0) for name, total in totals.items()}
        steps, seconds = new.get("steps", 0.0), new.get("seconds", 0.0)
        if steps <= 0 or seconds <= 0:
            return
        yield Value("step_seconds", None, round(seconds / steps, 6))
        for name, spent in new.items():
            if name.startswith("phase "):
                yield Value("step_share", name[len("phase ") :], round(max(spent, 0.0) / seconds, 4))


def _values(gpu: GpuReading) -> Iterator[tuple[str, float]]:
    if gpu.utilization is not None:
        yield "gpu_utilization", gpu.utilization / 100
    if gpu.memory_used is not None:
        yield "gpu_memory_used", gpu.memory_used
    if gpu.power_w is not None:
        yield "gpu_power", gpu.power_w
    if gpu.temperature_c is not None:
        yield "gpu_temperature", gpu.temperature_c
    if gpu.counters is not None:
        if gpu.counters.sm_active is not None:
            yield "gpu_working", gpu.counters.sm_active
        if gpu.counters.tensor_active is not None:
            yield "gpu_tensor_active", gpu.counters.tensor_active
