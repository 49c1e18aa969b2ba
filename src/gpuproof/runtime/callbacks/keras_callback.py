"""Keras callback that adds metrics of the GPUs to the logs of each epoch."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

from gpuproof.runtime.callbacks.gpu_reporter import GpuReporter
from gpuproof.runtime.imported_frameworks import load_module

_UTILIZATION = "gpu_utilization"


def keras_gpu_callback() -> type[Any]:
    """Create the class for the Keras that the script uses."""
    base: Any = load_module(_keras()).callbacks.Callback

    class KerasGpuCallback(base):
        """Adds `gpu_utilization` and `gpu_memory_gib` to the logs of each epoch, before TensorBoard, CSVLogger and History see them.

        Args:
            require_gpu: whether the process ends with exit code 4 if a GPU that it can see does no work.
        """

        def __init__(self, require_gpu: bool = True) -> None:
            super().__init__()
            self._reporter = GpuReporter(require_gpu)

        def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            self._reporter.begin()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            # All callbacks receive the same dictionary, in the order of the list.
            if logs is not None and (metrics := self._reporter.metrics()):
                # CSVLogger takes its columns from the first epoch, which may be shorter than the interval between two samples.
                logs.update({_UTILIZATION: math.nan, **metrics})

        def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            self._reporter.end()

    return KerasGpuCallback


def _keras() -> str:
    """TensorFlow's Keras is `tf_keras` if this variable says so. Source: https://github.com/keras-team/tf-keras"""
    is_legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true")
    return "tf_keras" if is_legacy or ("tf_keras" in sys.modules and "keras" not in sys.modules) else "keras"
