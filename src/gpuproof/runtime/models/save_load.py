"""`save()` and `load()`: a model in the form that serving expects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuproof.runtime.atomic_folders import all_must_write, filling, for_nothing
from gpuproof.runtime.contract import is_first_rank, paths
from gpuproof.runtime.models import keras_models, torch_models
from gpuproof.runtime.models.model_types import KERAS, PRETRAINED, TENSORFLOW, TORCH, kind_of


def save(
    model: Any,
    folder: str | Path | None = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    example: Any = None,
    signatures: Any = None,
) -> Path:
    """Save a trained model where it becomes the job's artifact, in the form that serving expects.

    - Keras: `model.keras`, and a SavedModel in `1/` for TensorFlow Serving.
    - `tf.Module`: a SavedModel in `1/`.
    - PyTorch: `model.pth` (the state dict, on the CPU), `model.json` (the class and its arguments) and `code/` with the
      script's own modules and an `inference.py` whose `model_fn` loads it; with `example` also `model.pt2`.
    - Hugging Face transformers: what `save_pretrained` writes.

    Every process may call it; the first rank alone writes. Each file appears whole or not at all. What can be written
    is written: why a part could not be is said on standard error. Sharded models (FSDP) must be gathered first.

    Args:
        folder: `SM_MODEL_DIR` by itself.
        arguments: PyTorch: what the model's class was built with, as JSON can hold it; not needed where all have
            defaults.
        example: PyTorch: an input, or a tuple of inputs, batch first, to export the computation itself.
        signatures: `tf.Module`: as for `tf.saved_model.save`.

    Returns:
        The folder.

    Raises:
        TypeError: the model is of none of these kinds.
    """
    kind = kind_of(model)
    if kind is None:
        raise TypeError(
            f"save() takes a Keras, TensorFlow, PyTorch or transformers model, not {type(model).__name__}"
        )
    place = Path(folder) if folder is not None else paths.model
    if is_first_rank():
        with filling(place) as unfinished:
            _write(kind, model, unfinished, arguments, example, signatures)
    elif kind in (KERAS, TENSORFLOW) and all_must_write():
        with for_nothing() as unfinished:
            _write(kind, model, unfinished, arguments, example, signatures)
    return place


def load(folder: str | Path | None = None) -> Any:
    """The model that `save()` has written, on the CPU and ready to predict.

    Args:
        folder: `SM_MODEL_DIR` by itself.

    Raises:
        FileNotFoundError: there is no model that it knows.
    """
    place = Path(folder) if folder is not None else paths.model
    if (place / torch_models.ABOUT).is_file():
        return torch_models.load(place)
    if (place / keras_models.KERAS_FILE).is_file() or (place / keras_models.SAVED_MODEL).is_dir():
        return keras_models.load(place)
    raise FileNotFoundError(
        f"{place} holds neither {torch_models.ABOUT}, {keras_models.KERAS_FILE} nor {keras_models.SAVED_MODEL}/: "
        "save() writes them"
    )


def _write(
    kind: str, model: Any, folder: Path, arguments: Mapping[str, Any] | None, example: Any, signatures: Any
) -> None:
    if kind == KERAS:
        keras_models.save_keras(model, folder)
    elif kind == TENSORFLOW:
        keras_models.save_module(model, folder, signatures)
    elif kind == PRETRAINED:
        torch_models.plain(model).save_pretrained(folder)
    elif kind == TORCH:
        torch_models.save(model, folder, arguments or {}, example)
