"""Saves and loads Keras and TensorFlow models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof.runtime.imported_frameworks import load_module
from gpuproof.util.log import log

KERAS_FILE = "model.keras"
SAVED_MODEL = "1"
"""TensorFlow Serving requires a folder whose name is a number."""


def save_keras(model: Any, folder: Path) -> None:
    """Write `model.keras` for further training, and a SavedModel for serving."""
    model.save(str(folder / KERAS_FILE))
    try:
        _export(model, str(folder / SAVED_MODEL))
    except Exception as error:  # noqa: BLE001 - a failed export must not lose hours of training
        log(
            f"the model was saved as {KERAS_FILE}, but not as a SavedModel for TensorFlow Serving: "
            f"{type(error).__name__}: {error}"
        )


def save_module(module: Any, folder: Path, signatures: Any) -> None:
    """Write a SavedModel of a `tf.Module`."""
    load_module("tensorflow").saved_model.save(module, str(folder / SAVED_MODEL), signatures=signatures)


def load(folder: Path) -> Any:
    """Load the Keras model, or else the SavedModel."""
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
