"""Keras and TensorFlow models on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof.runtime.imported_frameworks import load as load_module
from gpuproof.util.log import say

KERAS_FILE = "model.keras"
SAVED_MODEL = "1"
"""TensorFlow Serving wants a folder with a number for its name."""


def save_keras(model: Any, folder: Path) -> None:
    """`model.keras` to go on from, and a SavedModel to serve."""
    model.save(str(folder / KERAS_FILE))
    try:
        _export(model, str(folder / SAVED_MODEL))
    except Exception as error:  # noqa: BLE001 - hours of training must not be lost for want of the second form
        say(
            f"the model is saved as {KERAS_FILE}, but not as a SavedModel for TensorFlow Serving: "
            f"{type(error).__name__}: {error}"
        )


def save_module(module: Any, folder: Path, signatures: Any) -> None:
    """A SavedModel of a `tf.Module`."""
    load_module("tensorflow").saved_model.save(module, str(folder / SAVED_MODEL), signatures=signatures)


def load(folder: Path) -> Any:
    """A Keras model, else the SavedModel."""
    path = folder / KERAS_FILE
    if path.is_file():
        return load_module("tensorflow").keras.models.load_model(path)
    return load_module("tensorflow").saved_model.load(str(folder / SAVED_MODEL))


def _export(model: Any, folder: str) -> None:
    if not hasattr(model, "export"):
        model.save(folder)  # Keras before 2.13
    elif type(model).export.__module__.startswith("tf_keras"):
        model.export(folder)
    else:
        model.export(folder, verbose=False)
