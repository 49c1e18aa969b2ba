"""Keras 3 cannot `fit` under strategies of several hosts; this says so before TensorFlow's own, cryptic error."""

from __future__ import annotations

import functools
import sys
from typing import Any

_METHODS = ("fit", "evaluate")


class KerasFitUnsupported(RuntimeError):
    """Keras 3's `fit` or `evaluate` was called under a strategy that it does not work with."""


def guard_fit(strategy: Any, name: str, hosts: int) -> None:
    """Let Keras 3's models refuse `fit` under this strategy with an error that names the two ways out.

    Keras 3 fails there with "Attempt to convert a value (PerReplica…)" (seen with TensorFlow 2.21 and Keras 3.15).
    Building a model, `predict`, `strategy.run`, gradients and saving all work.

    Args:
        name: the strategy's, for a person.
        hosts: how many processes the cluster has; with one alone `fit` works and nothing is guarded.
    """
    if hosts < 2:
        return
    model = _keras_model()
    if model is None or getattr(model, "_gpuproof_guards", None) is not None:
        return
    guarded = {method: getattr(model, method) for method in _METHODS}
    for method, original in guarded.items():
        setattr(model, method, _refusing(method, original, type(strategy), name))
    model._gpuproof_guards = guarded  # noqa: SLF001 - our own mark on it


def _keras_model() -> Any:
    """Keras 3's model class; `None` where the script uses Keras 2, whose `fit` works."""
    keras: Any = sys.modules.get("keras")
    if keras is None:
        tensorflow: Any = sys.modules["tensorflow"]
        # Names the Keras behind `tf.keras`, and imports it: it could not be guarded otherwise.
        tensorflow.keras.Model  # noqa: B018
        keras = sys.modules.get("keras")
    version = getattr(keras, "__version__", "")
    return keras.Model if keras is not None and version.startswith("3.") else None


def _refusing(called: str, original: Any, kind: type, strategy: str) -> Any:
    @functools.wraps(original)
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(getattr(self, "distribute_strategy", None), kind):
            raise KerasFitUnsupported(
                f"Keras 3's model.{called} does not work under {strategy} with several hosts. Two ways out:\n"
                "  1. Keras 2: 'pip install tf_keras', and set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported\n"
                "     (in the job: environment: {TF_USE_LEGACY_KERAS: '1'}); model.fit works there.\n"
                "  2. Keras 3 with a loop of your own: strategy.experimental_distribute_dataset(data), and in it\n"
                "     strategy.run(step), where step calls optimizer.apply_gradients(...)."
            )
        return original(self, *arguments, **named)

    return method
