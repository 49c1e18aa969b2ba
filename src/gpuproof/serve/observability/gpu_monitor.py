"""Samples the GPUs once per second, for `/metrics` and to detect that GPUs are unused after the first requests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Callable

from gpuproof.gpu.nvml import GpuReading, Nvml, NvmlUnavailable
from gpuproof.util.humanize import gpu_list
from gpuproof.util.prometheus_text import Labels, Line, family

_INTERVAL_S = 1.0
MIN_REQUESTS = 20
MIN_SAMPLES = 5
_CONTEXT = 64 * 1024 * 1024
"""Every process that computes on a GPU uses more of its memory than this."""


@dataclass
class GpuUsage:
    """Samples of one GPU. Memory in bytes, utilization in percent; `None` if unavailable from NVML."""

    index: int
    baseline: int | None = None
    """Memory in use before workers were started."""
    max_memory: int | None = None
    max_utilization: int | None = None
    samples: int = 0
    """Number of samples while requests were answered."""
    last: GpuReading | None = None

    def add(self, reading: GpuReading, *, busy: bool) -> None:
        """Add a sample. `busy`: whether requests were answered since the previous one."""
        self.last = reading
        if reading.memory_used is not None:
            if self.baseline is None:
                self.baseline = reading.memory_used
            self.max_memory = max(self.max_memory or 0, reading.memory_used)
        if reading.utilization is not None and busy:
            self.max_utilization = max(self.max_utilization or 0, reading.utilization)
        self.samples += busy


def unused_warning(gpus: Sequence[GpuUsage], answered: int) -> str | None:
    """The warning about GPUs that are unused after the first requests; `None` if there are none, or too few samples.

    A GPU counts as unused only if it had neither utilization nor allocated memory, because the kernels of a small model
    may be too short for NVML.
    """
    if answered < MIN_REQUESTS or not gpus or any(gpu.samples < MIN_SAMPLES for gpu in gpus):
        return None
    idle = [gpu.index for gpu in gpus if _is_unused(gpu)]
    if not idle:
        return None
    return (
        f"{gpu_list(idle)} did nothing in the first {answered} requests: no utilization and no allocated memory. The "
        "handler computes on the CPU; usually `model.to('cuda')` in model_fn or `data.to('cuda')` in input_fn is missing."
    )


def grown_memory(gpu: GpuUsage) -> int | None:
    """How much the memory in use has grown since the workers were started, in bytes; `None` if unknown."""
    if gpu.baseline is None or gpu.max_memory is None:
        return None
    return gpu.max_memory - gpu.baseline


def _is_unused(gpu: GpuUsage) -> bool:
    grown = grown_memory(gpu)
    if gpu.max_utilization is None or grown is None:
        return False
    return gpu.max_utilization == 0 and grown < _CONTEXT


class GpuMonitor:
    """Samples GPUs in a thread.

    Args:
        answered: returns the number of predictions so far.
        warn: called with the reason if the GPUs cannot be monitored.
        on_unused: called once with a warning if GPUs are unused.
    """

    def __init__(
        self,
        indexes: Sequence[int],
        answered: Callable[[], int],
        warn: Callable[[str], None],
        on_unused: Callable[[str], object],
    ) -> None:
        self._gpus = [GpuUsage(index) for index in indexes]
        self._answered = answered
        self._warn = warn
        self._on_unused = on_unused
        self._stopping = threading.Event()
        self._has_baseline = threading.Event()
        self._checked = False
        self._thread = threading.Thread(target=self._run, name="gpuproof-gpu-monitor", daemon=True)

    def start(self) -> None:
        """Start sampling, if there are GPUs."""
        if self._gpus:
            self._thread.start()

    def wait_for_baseline(self, timeout_s: float) -> None:
        """Wait for the first sample, which must precede the start of workers."""
        if self._gpus:
            self._has_baseline.wait(timeout_s)

    def stop(self) -> None:
        """Stop sampling."""
        self._stopping.set()

    @property
    def usage(self) -> Sequence[GpuUsage]:
        """The samples of each GPU so far."""
        return self._gpus

    def lines(self) -> Iterator[str]:
        """The latest samples, in Prometheus's text format."""
        readings = [(gpu.index, gpu.last) for gpu in self._gpus if gpu.last is not None]
        yield from _gauge(
            "gpuproof_gpu_utilization_percent",
            "Share of time with a running kernel.",
            [(i, r.utilization) for i, r in readings],
        )
        yield from _gauge(
            "gpuproof_gpu_memory_used_bytes", "Memory in use.", [(i, r.memory_used) for i, r in readings]
        )
        yield from _gauge(
            "gpuproof_gpu_memory_total_bytes", "Total memory.", [(i, r.memory_total) for i, r in readings]
        )
        yield from _gauge("gpuproof_gpu_power_watts", "Power drawn.", [(i, r.power_w) for i, r in readings])
        yield from _gauge(
            "gpuproof_gpu_temperature_celsius", "Temperature.", [(i, r.temperature_c) for i, r in readings]
        )

    def _run(self) -> None:
        try:
            with Nvml.open() as nvml:
                baseline = 0
                while True:
                    answered = self._answered()
                    for gpu in self._gpus:
                        gpu.add(nvml.read(gpu.index), busy=answered > baseline)
                    baseline = answered
                    self._has_baseline.set()
                    self._check_unused(answered)
                    if self._stopping.wait(_INTERVAL_S):
                        return
        except NvmlUnavailable as error:
            self._has_baseline.set()
            self._warn(f"the GPUs cannot be monitored: {error.reason}")

    def _check_unused(self, answered: int) -> None:
        if self._checked or any(gpu.samples < MIN_SAMPLES for gpu in self._gpus) or answered < MIN_REQUESTS:
            return
        self._checked = True
        found = unused_warning(self._gpus, answered)
        if found is not None:
            # The event loop may be closed already.
            with contextlib.suppress(RuntimeError):
                self._on_unused(found)


def _gauge(name: str, help_text: str, values: Sequence[tuple[int, float | None]]) -> Iterator[str]:
    lines: list[Line] = []
    for index, value in values:
        labels: Labels = (("gpu", str(index)),)
        if value is not None:
            lines.append((name, labels, value))
    yield from family(name, "gauge", help_text, lines)
