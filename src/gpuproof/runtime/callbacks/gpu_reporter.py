"""What the callbacks of all frameworks have in common: metrics of the GPUs for a logger, and the verdict."""

from __future__ import annotations

from gpuproof.runtime.watch.shared_connection import is_interactive
from gpuproof.runtime.watch.usage import GpuUsage, UsageMeter
from gpuproof.runtime.watch.watch import Watch, watch

_GIB = 1 << 30


class GpuReporter:
    """Watches a training and measures the GPUs between two reports.

    Args:
        require_gpu: whether the process ends with exit code 4 if a GPU that it can see does no work.
    """

    def __init__(self, require_gpu: bool = True) -> None:
        self._require_gpu = require_gpu
        self._meter = UsageMeter()
        self._block: Watch | None = None
        self._has_begun = False

    def begin(self) -> None:
        """Begin to watch: in a script to the end of the process, in a notebook to the end of the training."""
        if self._has_begun:
            return
        self._has_begun = True
        if is_interactive():
            self._block = watch(require_gpu=False).__enter__()
        else:
            watch(require_gpu=self._require_gpu)
        self._meter.read()

    def metrics(self) -> dict[str, float]:
        """The metrics since the last call, as `gpu_metrics` returns them."""
        return metrics_of(self._meter.read())

    def end(self) -> None:
        """End the training; prints the verdict in a notebook, whose process goes on."""
        self._has_begun = False
        if self._block is not None:
            self._block.__exit__(None, None, None)
            self._block = None


def metrics_of(usages: tuple[GpuUsage, ...]) -> dict[str, float]:
    """Metrics with names that loggers, file names and spreadsheets accept; of each GPU if there are several.

    Returns:
        `gpu_utilization`, mean in percent, `gpu_memory_gib`, in use on all GPUs, and with several GPUs `gpu_0_utilization`,
        `gpu_0_memory_gib` and so on. Empty if nothing is measured.
    """
    metrics: dict[str, float] = {}
    known = [usage.utilization for usage in usages if usage.utilization is not None]
    if known:
        metrics["gpu_utilization"] = sum(known) / len(known)
    memory = [usage.memory_used for usage in usages if usage.memory_used is not None]
    if memory:
        metrics["gpu_memory_gib"] = sum(memory) / _GIB
    for usage in usages if len(usages) > 1 else ():
        if usage.utilization is not None:
            metrics[f"gpu_{usage.index}_utilization"] = usage.utilization
        if usage.memory_used is not None:
            metrics[f"gpu_{usage.index}_memory_gib"] = usage.memory_used / _GIB
    return metrics


_meter = UsageMeter()


def gpu_metrics() -> dict[str, float]:
    """Utilization and memory of the GPUs since the last call, for any logger: `wandb.log({"loss": loss, **gpu_metrics()})`.

    Returns:
        `gpu_utilization`, mean in percent, `gpu_memory_gib`, in use on all GPUs, and with several GPUs `gpu_0_utilization`,
        `gpu_0_memory_gib` and so on. Empty if nothing is measured.
    """
    return metrics_of(_meter.read())
