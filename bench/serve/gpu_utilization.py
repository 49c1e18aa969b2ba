"""Utilization of the GPU over time, read from NVML."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from types import TracebackType

from gpuproof.gpu.nvml import GpuReading, Nvml

from .measurement import Span

_INTERVAL_S = 0.25
_PERIOD_S = 1.0
"""A reading of the utilisation is about up to so long before it."""


@dataclass(frozen=True)
class Use:
    """Utilization and memory of a GPU over an interval.

    Args:
        utilization: percent of the time in which a kernel ran, the mean of the readings; `None` where NVML does not say.
        memory: most bytes in use on the whole device; `None` likewise.
    """

    utilization: float | None
    memory: int | None


class UtilizationMonitor:
    """Samples the GPU four times a second in a thread, within a `with` statement.

    Args:
        index: NVML index of the GPU; `None` without a GPU.
    """

    def __init__(self, index: int | None) -> None:
        self._index = index
        self._seen: list[tuple[float, GpuReading]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> UtilizationMonitor:
        if self._index is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._index is not None:
            self._thread.join()

    def during(self, span: Span) -> Use | None:
        """The use between two times of `time.monotonic`, or `None` without a sample."""
        return use(self._seen, span)

    def _look(self) -> None:
        assert self._index is not None
        with Nvml.open() as nvml:
            while not self._over.is_set():
                self._seen.append((time.monotonic(), nvml.read(self._index)))
                self._over.wait(_INTERVAL_S)


def use(seen: list[tuple[float, GpuReading]], span: Span) -> Use | None:
    """The readings of a time together; its first second is left out, whose readings are of what was before, or its first
    half where it is short.
    """
    began, ended = span
    since = began + min(_PERIOD_S, (ended - began) / 2)
    readings = [reading for when, reading in seen if since <= when <= ended]
    rates = [reading.utilization for reading in readings if reading.utilization is not None]
    memory = [reading.memory_used for reading in readings if reading.memory_used is not None]
    if not rates and not memory:
        return None
    return Use(statistics.mean(rates) if rates else None, max(memory, default=None))
