"""`save()` and `load()`: models in the formats that serving expects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuproof.runtime.atomic_folders import discarded_folder, staged_entries, writes_collectively
from gpuproof.runtime.contract import is_first_rank, paths
from gpuproof.runtime.models import keras_models, torch_models
from gpuproof.runtime.models.model_types import KERAS, PRETRAINED, TENSORFLOW, TORCH, model_kind


def save(
    model: Any,
    folder: str | Path | None = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    example: Any = None,
    signatures: Any = None,
) -> Path:
    """Save a trained model as the job's artifact, in the format that serving expects.

    - Keras: `model.keras`, and a SavedModel in `1/` for TensorFlow Serving.
    - `tf.Module`: a SavedModel in `1/`.
    - PyTorch: `model.pth` (the state dict, on the CPU), `model.json` (the class and its arguments) and `code/` with the
      script's own modules and an `inference.py` whose `model_fn` loads it; with `example` also `model.pt2`.
    - Hugging Face transformers: the output of `save_pretrained`.

    Every process can call it; only the first rank writes. Files are written atomically. If a part cannot be written, the
    reason is printed on standard error and the rest is saved. Sharded models (FSDP) must be gathered first.

    Args:
        folder: by default `SM_MODEL_DIR`.
        arguments: PyTorch: arguments of the model's class, as JSON values; not needed if all have defaults.
        example: PyTorch: an input, or a tuple of inputs, batch first, to export the computation itself.
        signatures: `tf.Module`: as for `tf.saved_model.save`.

    Returns:
        The folder.

    Raises:
        TypeError: the model is of none of these types.
    """
    kind = model_kind(model)
    if kind is None:
        raise TypeError(
            f"save() takes a Keras, TensorFlow, PyTorch or transformers model, not {type(model).__name__}"
        )
    target = Path(folder) if folder is not None else paths.model
    if is_first_rank():
        with staged_entries(target) as unfinished:
            _write(kind, model, unfinished, arguments, example, signatures)
    elif kind in (KERAS, TENSORFLOW) and writes_collectively():
        with discarded_folder() as unfinished:
            _write(kind, model, unfinished, arguments, example, signatures)
    return target


def load(folder: str | Path | None = None) -> Any:
    """Load a model that `save()` has written, on the CPU and in evaluation mode.

    Args:
        folder: by default `SM_MODEL_DIR`.

    Raises:
        FileNotFoundError: the folder contains no model of `save()`.
    """
    target = Path(folder) if folder is not None else paths.model
    if (target / torch_models.MANIFEST).is_file():
        return torch_models.load(target)
    if (target / keras_models.KERAS_FILE).is_file() or (target / keras_models.SAVED_MODEL).is_dir():
        return keras_models.load(target)
    raise FileNotFoundError(
        f"{target} contains neither {torch_models.MANIFEST}, {keras_models.KERAS_FILE} nor {keras_models.SAVED_MODEL}/: "
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
        torch_models.unwrap(model).save_pretrained(folder)
    elif kind == TORCH:
        torch_models.save(model, folder, arguments or {}, example)
