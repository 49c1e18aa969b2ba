"""Keras callback that saves checkpoints within `fit`."""

from __future__ import annotations

from typing import Any, Protocol

from gpuproof.runtime.imported_frameworks import load_module


class TrainingLoop(Protocol):
    """What a training loop reports to a `Checkpoint`."""

    def begin_epoch(self, epoch: int) -> None:
        """Begin an epoch at its first step."""
        ...

    def step(self) -> None:
        """End a step."""
        ...

    def end_epoch(self, epoch: int, last: bool = False) -> None:
        """End an epoch."""
        ...


def keras_callback(checkpoint: TrainingLoop, model: Any) -> Any:
    """Create the callback for the Keras version that the model belongs to.

    Raises:
        ValueError: there is no Keras model.
    """
    if model is None:
        raise ValueError("callback() requires a Keras model among the states, as in checkpoint(model=model)")
    legacy = any(cls.__module__.startswith("tf_keras") for cls in type(model).__mro__)
    base: Any = load_module("tf_keras" if legacy else "keras").callbacks.Callback

    class KeepCheckpoints(base):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            checkpoint.begin_epoch(epoch)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            checkpoint.step()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            checkpoint.end_epoch(epoch, last=epoch + 1 == self.params.get("epochs"))

    return KeepCheckpoints()
