"""Memory in use of each GPU over time, in memory that does not grow with the length of the run."""

from __future__ import annotations

import threading

from gpuproof.gpu.gpu_stats import SeriesBuilder
from gpuproof.gpu.telemetry import Sample, Series


class MemorySeries:
    """Adds up the memory of samples; thread-safe.

    Args:
        first_step_s: the first resolution, in seconds.
    """

    def __init__(self, first_step_s: float = 0.25) -> None:
        self._first_step = first_step_s
        self._lock = threading.Lock()
        self._builders: dict[int, SeriesBuilder] = {}

    def add(self, sample: Sample) -> None:
        """Add a sample; samples must be added in chronological order."""
        with self._lock:
            for reading in sample.gpus:
                builder = self._builders.get(reading.index)
                if builder is None:
                    builder = self._builders[reading.index] = SeriesBuilder(self._first_step)
                builder.add(sample.dt, reading.memory_used)

    def series(self) -> dict[int, Series]:
        """Return the mean bytes in use by all processes, by the index of the GPU."""
        with self._lock:
            return {index: builder.series() for index, builder in sorted(self._builders.items())}
