"""Looks at the GPUs once a second while the server runs: for `/metrics`, and for the verdict of the first requests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Callable

from gpuproof.gpu.nvml import GpuReading, Nvml, NvmlUnavailable
from gpuproof.serve.observability.metrics import Labels, Line, family
from gpuproof.util.humanize import gpu_list

_EVERY_S = 1.0
ENOUGH_REQUESTS = 20
ENOUGH_LOOKS = 5
_CONTEXT = 64 * 1024 * 1024
"""Any process that computes on a GPU takes more of its memory than this."""


@dataclass
class Watched:
    """What was seen of one GPU. Memory in bytes, utilization in percent; `None` where NVML does not say."""

    index: int
    before: int | None = None
    """Memory in use before any predictor was started."""
    most_memory: int | None = None
    most_utilization: int | None = None
    looks: int = 0
    """How often it was looked at while requests were answered."""
    last: GpuReading | None = None

    def add(self, reading: GpuReading, *, working: bool) -> None:
        """One look; `working`: requests were answered since the last."""
        self.last = reading
        if reading.memory_used is not None:
            if self.before is None:
                self.before = reading.memory_used
            self.most_memory = max(self.most_memory or 0, reading.memory_used)
        if reading.utilization is not None and working:
            self.most_utilization = max(self.most_utilization or 0, reading.utilization)
        self.looks += working


def verdict(gpus: Sequence[Watched], answered: int) -> str | None:
    """What a person should be warned of after the first requests; `None` when there is nothing, or too little to say.

    A GPU counts as unused only when it neither worked nor holds a process's memory: the work of a small model may be
    too short for NVML to see.
    """
    if answered < ENOUGH_REQUESTS or not gpus or any(gpu.looks < ENOUGH_LOOKS for gpu in gpus):
        return None
    idle = [gpu.index for gpu in gpus if _unused(gpu)]
    if not idle:
        return None
    return (
        f"{gpu_list(idle)} did nothing in the first {answered} requests: no work was seen and no memory was "
        "taken. The handler computes on the CPU; `model.to('cuda')` in model_fn and `data.to('cuda')` in input_fn are what "
        "is usually missing."
    )


def _unused(gpu: Watched) -> bool:
    if gpu.most_utilization is None or gpu.before is None or gpu.most_memory is None:
        return False
    return gpu.most_utilization == 0 and gpu.most_memory - gpu.before < _CONTEXT


class GpuWatch:
    """The thread that looks.

    Args:
        indexes: the GPUs that predictors use, as NVML counts them.
        answered: how many predictions were given so far.
        warn: told why the GPUs cannot be watched.
        unused: told the verdict, once, where GPUs were not used.
    """

    def __init__(
        self,
        indexes: Sequence[int],
        answered: Callable[[], int],
        warn: Callable[[str], None],
        unused: Callable[[str], object],
    ) -> None:
        self._gpus = [Watched(index) for index in indexes]
        self._answered = answered
        self._warn = warn
        self._unused = unused
        self._stopping = threading.Event()
        self._looked = threading.Event()
        self._judged = False
        self._thread = threading.Thread(target=self._run, name="gpuproof-gpu-watch", daemon=True)

    def start(self) -> None:
        """Begin to look, where there is anything to look at."""
        if self._gpus:
            self._thread.start()

    def wait_for_a_look(self, patience_s: float) -> None:
        """Wait until the memory in use before any predictor is known: the verdict counts from there."""
        if self._gpus:
            self._looked.wait(patience_s)

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()

    def lines(self) -> Iterator[str]:
        """What was seen last, as Prometheus reads it."""
        readings = [(gpu.index, gpu.last) for gpu in self._gpus if gpu.last is not None]
        yield from _gauge(
            "gpuproof_gpu_utilization_percent", "A kernel ran.", [(i, r.utilization) for i, r in readings]
        )
        yield from _gauge(
            "gpuproof_gpu_memory_used_bytes", "Memory in use.", [(i, r.memory_used) for i, r in readings]
        )
        yield from _gauge(
            "gpuproof_gpu_memory_total_bytes", "Memory in all.", [(i, r.memory_total) for i, r in readings]
        )
        yield from _gauge("gpuproof_gpu_power_watts", "Power drawn.", [(i, r.power_w) for i, r in readings])

    def _run(self) -> None:
        try:
            with Nvml.open() as nvml:
                before = 0
                while True:
                    answered = self._answered()
                    for gpu in self._gpus:
                        gpu.add(nvml.read(gpu.index), working=answered > before)
                    before = answered
                    self._looked.set()
                    self._judge(answered)
                    if self._stopping.wait(_EVERY_S):
                        return
        except NvmlUnavailable as error:
            self._looked.set()
            self._warn(f"the GPUs cannot be watched: {error.reason}")

    def _judge(self, answered: int) -> None:
        if self._judged or any(gpu.looks < ENOUGH_LOOKS for gpu in self._gpus) or answered < ENOUGH_REQUESTS:
            return
        self._judged = True
        found = verdict(self._gpus, answered)
        if found is not None:
            # The loop may be over already: then it matters to nobody.
            with contextlib.suppress(RuntimeError):
                self._unused(found)


def _gauge(name: str, help_text: str, values: Sequence[tuple[int, float | None]]) -> Iterator[str]:
    lines: list[Line] = []
    for index, value in values:
        labels: Labels = (("gpu", str(index)),)
        if value is not None:
            lines.append((name, labels, value))
    yield from family(name, "gauge", help_text, lines)
