"""Rejects Keras 3's `fit` under strategies of several hosts, which it does not support, with a clear error."""

from __future__ import annotations

import functools
import sys
from typing import Any

_METHODS = ("fit", "evaluate")


class KerasFitUnsupported(RuntimeError):
    """Keras 3's `fit` or `evaluate` was called under a strategy that it does not work with."""


def guard_fit(strategy: Any, name: str, hosts: int) -> None:
    """Make `fit` and `evaluate` of Keras 3 models raise under this strategy, with an error that has two workarounds.

    Keras 3 fails there with "Attempt to convert a value (PerReplica…)" (seen with TensorFlow 2.21 and Keras 3.15).
    Building a model, `predict`, `strategy.run`, gradients and saving all work.

    Args:
        hosts: number of processes of the cluster; with one, `fit` works and nothing changes.
    """
    if hosts < 2:
        return
    model = _keras_model()
    if model is None or getattr(model, "_gpuproof_guards", None) is not None:
        return
    originals = {method: getattr(model, method) for method in _METHODS}
    for method, original in originals.items():
        setattr(model, method, _raising_method(method, original, type(strategy), name))
    model._gpuproof_guards = originals  # noqa: SLF001 - set by this module


def _keras_model() -> Any:
    """Keras 3's model class; `None` if the script uses Keras 2, whose `fit` works."""
    keras: Any = sys.modules.get("keras")
    if keras is None:
        tensorflow: Any = sys.modules["tensorflow"]
        # Imports the Keras behind `tf.keras`, which must be loaded to be patched.
        tensorflow.keras.Model  # noqa: B018
        keras = sys.modules.get("keras")
    version = getattr(keras, "__version__", "")
    return keras.Model if keras is not None and version.startswith("3.") else None


def _raising_method(called: str, original: Any, kind: type, strategy: str) -> Any:
    @functools.wraps(original)
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(getattr(self, "distribute_strategy", None), kind):
            raise KerasFitUnsupported(
                f"Keras 3's model.{called} does not work under {strategy} with several hosts. Alternatives:\n"
                "  1. Keras 2: 'pip install tf_keras', and set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported\n"
                "     (in the job: environment: {TF_USE_LEGACY_KERAS: '1'}), where model.fit works.\n"
                "  2. Keras 3 with a custom training loop: strategy.experimental_distribute_dataset(data), and\n"
                "     strategy.run(step), where step calls optimizer.apply_gradients(...)."
            )
        return original(self, *arguments, **named)

    return method
