"""Lightning callback that logs metrics of the GPUs with the trainer's loggers."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

from gpuproof.runtime.callbacks.gpu_reporter import GpuReporter
from gpuproof.runtime.imported_frameworks import load_module

_NEW, _OLD = "lightning.pytorch", "pytorch_lightning"
"""The package has two names, whose classes differ."""


def lightning_gpu_callback() -> type[Any]:
    """Create the class for the Lightning that the script uses."""
    base: Any = load_module(_lightning()).callbacks.Callback

    class LightningGpuCallback(base):
        """Logs `gpu_utilization` and `gpu_memory_gib` every `log_every_n_steps` steps with all loggers of the trainer.

        Args:
            require_gpu: whether the process ends with exit code 4 if a GPU that it can see does no work.
        """

        def __init__(self, require_gpu: bool = True) -> None:
            super().__init__()
            self._reporter = GpuReporter(require_gpu)
            self._logged_step = 0

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's arguments
            self._reporter.begin()
            self._logged_step = trainer.global_step

        def on_train_batch_end(self, trainer: Any, *_arguments: Any, **_named: Any) -> None:
            # With accumulated gradients, several batches have one step.
            if trainer.global_step - self._logged_step >= trainer.log_every_n_steps:
                self._log(trainer)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:  # noqa: ARG002 - Lightning's arguments
            if trainer.global_step > self._logged_step:
                self._log(trainer)
            self._reporter.end()

        def _log(self, trainer: Any) -> None:
            self._logged_step = trainer.global_step
            if trainer.is_global_zero and (metrics := self._reporter.metrics()):
                for logger in trainer.loggers:
                    logger.log_metrics(metrics, step=trainer.global_step)

    return LightningGpuCallback


def _lightning() -> str:
    if _OLD in sys.modules and _NEW not in sys.modules:
        return _OLD
    return _NEW if _NEW in sys.modules or find_spec("lightning") is not None else _OLD
