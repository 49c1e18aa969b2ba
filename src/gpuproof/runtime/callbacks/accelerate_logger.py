"""Adds metrics of the GPUs to what a script logs with Hugging Face's Accelerate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.runtime.callbacks.gpu_reporter import GpuReporter


class AccelerateGpuLogger:
    """Logs with all trackers of an `Accelerator`, and watches the process from here to its end.

    Args:
        accelerator: an `accelerate.Accelerator` whose trackers are initialized before the first `log`.
        require_gpu: whether the process ends with exit code 4 if a GPU that it can see does no work.
    """

    def __init__(self, accelerator: Any, require_gpu: bool = True) -> None:
        self._accelerator = accelerator
        self._reporter = GpuReporter(require_gpu)
        self._reporter.begin()

    def log(self, values: Mapping[str, Any] | None = None, step: int | None = None, **options: Any) -> None:
        """Call `accelerator.log` with the values, `gpu_utilization` and `gpu_memory_gib`.

        Args:
            options: other keywords of `accelerator.log`.
        """
        metrics = self._reporter.metrics() if self._accelerator.is_main_process else {}
        self._accelerator.log({**(values or {}), **metrics}, step=step, **options)

    def end(self) -> None:
        """Call `accelerator.end_training`; in a notebook, the verdict follows."""
        self._accelerator.end_training()
        self._reporter.end()
