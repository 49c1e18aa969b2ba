"""A checkpoint within Keras's `fit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpuproof.runtime.imported_frameworks import load

if TYPE_CHECKING:
    from gpuproof.runtime.checkpoint.checkpoint import Checkpoint


def keras_callback(checkpoint: Checkpoint, model: Any) -> Any:
    """The callback, made for the Keras that the model belongs to.

    Args:
        model: the Keras model among the checkpoint's states.

    Raises:
        ValueError: there is none.
    """
    if model is None:
        raise ValueError("callback() is for Keras: checkpoint(model=model) keeps no Keras model")
    legacy = any(cls.__module__.startswith("tf_keras") for cls in type(model).__mro__)
    base: Any = load("tf_keras" if legacy else "keras").callbacks.Callback

    class KeepCheckpoints(base):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            checkpoint.begin_epoch(epoch)

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            checkpoint.step()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 - Keras names its arguments
            checkpoint.end_epoch(epoch, last=epoch + 1 == self.params.get("epochs"))

    return KeepCheckpoints()
