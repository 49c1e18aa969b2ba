"""Detects a model's framework from its classes, without importing the framework."""

from __future__ import annotations

from typing import Any

KERAS = "keras"
TENSORFLOW = "tensorflow"
TORCH = "torch"
PRETRAINED = "pretrained"


def model_kind(model: Any) -> str | None:
    """`KERAS`, `TENSORFLOW`, `PRETRAINED` or `TORCH`; `None` for anything else."""
    if is_keras(model):
        return KERAS
    if callable(getattr(model, "save_pretrained", None)):
        return PRETRAINED
    if _is(model, ("torch",), "Module"):
        return PRETRAINED if callable(getattr(_inner(model), "save_pretrained", None)) else TORCH
    return TENSORFLOW if is_trackable(model) else None


def is_keras(thing: Any) -> bool:
    """Whether it is a Keras 3 or Keras 2 model."""
    return _is(thing, ("keras", "tf_keras"), "Model")


def is_trackable(thing: Any) -> bool:
    """Whether TensorFlow can save it in a checkpoint: a `tf.Module`, a variable, an optimizer."""
    return any(cls.__name__ == "Trackable" for cls in type(thing).__mro__)


def _is(thing: Any, packages: tuple[str, ...], name: str) -> bool:
    return any(
        cls.__name__ == name and cls.__module__.split(".", 1)[0] in packages for cls in type(thing).__mro__
    )


def _inner(model: Any) -> Any:
    return getattr(model, "module", None) or getattr(model, "_orig_mod", None)
