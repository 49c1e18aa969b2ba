"""Callbacks that report the utilization of the GPUs to a framework's own logger, and the verdict when the process ends.

    model.fit(data, callbacks=[rt.callbacks.KerasGpuCallback()])
    lightning.Trainer(callbacks=[rt.callbacks.LightningGpuCallback()])
    transformers.Trainer(model, arguments, callbacks=[rt.callbacks.TrainerGpuCallback()])
    rt.callbacks.AccelerateGpuLogger(accelerator).log({"loss": loss}, step=step)

A framework is imported when its callback is accessed.
"""

from __future__ import annotations

from typing import Any

from gpuproof.runtime.callbacks.accelerate_logger import AccelerateGpuLogger
from gpuproof.runtime.callbacks.gpu_reporter import gpu_metrics
from gpuproof.runtime.callbacks.keras_callback import keras_gpu_callback
from gpuproof.runtime.callbacks.lightning_callback import lightning_gpu_callback
from gpuproof.runtime.callbacks.trainer_callback import trainer_gpu_callback

# The callbacks are attributes only once they are accessed, since their base classes are the frameworks'.
__all__ = [
    "AccelerateGpuLogger",
    "KerasGpuCallback",  # pyright: ignore[reportUnsupportedDunderAll]
    "LightningGpuCallback",  # pyright: ignore[reportUnsupportedDunderAll]
    "TrainerGpuCallback",  # pyright: ignore[reportUnsupportedDunderAll]
    "gpu_metrics",
]

_CLASSES = {
    "KerasGpuCallback": keras_gpu_callback,
    "LightningGpuCallback": lightning_gpu_callback,
    "TrainerGpuCallback": trainer_gpu_callback,
}


def __getattr__(name: str) -> Any:
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    created = _CLASSES[name]()
    # So that the class can be pickled with a trainer that starts processes.
    created.__module__, created.__qualname__, created.__name__ = __name__, name, name
    globals()[name] = created
    return created
