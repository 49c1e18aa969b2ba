"""Writes and reads each kind of state; pickled data is only loaded with `weights_only=True`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

from gpuproof.runtime.imported_frameworks import load_module
from gpuproof.runtime.models.model_types import is_keras, is_trackable
from gpuproof.runtime.models.torch_models import unwrap

STATE_DICT = "state_dict"
KERAS = "keras"
TRACKABLE = "trackable"
VALUES = "values"
_ARRAY = "__array__"


class UnsupportedState(TypeError):
    """A checkpoint cannot save this state."""


def state_kind(name: str, state: Any) -> str:
    """Kind of a state, which decides how it is saved.

    Raises:
        UnsupportedState: it has no state dict and is no Keras model, TensorFlow object or plain dict.
    """
    if is_keras(state):
        return KERAS
    if callable(getattr(state, "state_dict", None)) and callable(getattr(state, "load_state_dict", None)):
        return STATE_DICT
    if isinstance(state, dict):
        _encode(name, state, {})
        return VALUES
    if is_trackable(state):
        return TRACKABLE
    raise UnsupportedState(
        f"checkpoint({name}=…) cannot save a {type(state).__name__}: pass an object with state_dict() and "
        "load_state_dict(), a Keras model, a TensorFlow object, or a dict of plain values and NumPy arrays"
    )


def write_state(kind: str, name: str, state: Any, folder: Path) -> None:
    """Write one state into a folder."""
    if kind == KERAS:
        state.save_weights(str(folder / f"{name}.weights.h5"))
    elif kind == STATE_DICT:
        load_module("torch").save(unwrap(state).state_dict(), folder / f"{name}.pt")
    elif kind == TRACKABLE:
        load_module("tensorflow").train.Checkpoint(state=state).write(str(folder / name / "state"))
    else:
        _write_values(name, state, folder)


def read_state(kind: str, name: str, state: Any, folder: Path) -> None:
    """Load what `write_state` has written into the state, in place."""
    if kind == KERAS:
        _read_keras(state, folder / f"{name}.weights.h5")
    elif kind == STATE_DICT:
        torch = load_module("torch")
        found = torch.load(folder / f"{name}.pt", map_location="cpu", weights_only=True)
        unwrap(state).load_state_dict(found)
    elif kind == TRACKABLE:
        load_module("tensorflow").train.Checkpoint(state=state).read(str(folder / name / "state"))
    else:
        _read_values(name, state, folder)


def _read_keras(model: Any, path: Path) -> None:
    if not model.built:
        raise UnsupportedState(
            "this Keras model has no weights yet to load the checkpoint into: start it with keras.Input, or call it on "
            "a batch, before checkpoint(...)"
        )
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and hasattr(optimizer, "build") and not getattr(optimizer, "built", True):
        optimizer.build(model.trainable_variables)
    model.load_weights(str(path))


def _write_values(name: str, values: dict[str, Any], folder: Path) -> None:
    arrays: dict[str, Any] = {}
    encoded = _encode(name, values, arrays)
    (folder / f"{name}.json").write_text(json.dumps(encoded), encoding="utf-8")
    if arrays:
        with (folder / f"{name}.npz").open("wb") as file:
            load_module("numpy").savez(file, **arrays)


def _read_values(name: str, values: dict[str, Any], folder: Path) -> None:
    encoded = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    arrays: dict[str, Any] = {}
    if (folder / f"{name}.npz").is_file():
        with load_module("numpy").load(folder / f"{name}.npz", allow_pickle=False) as stored:
            arrays = {key: stored[key] for key in stored.files}
    values.clear()
    values.update(_decode(encoded, arrays))


def _encode(name: str, value: Any, arrays: dict[str, Any]) -> Any:
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        value = value.item()
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype != object:
        arrays[str(len(arrays))] = value
        return {_ARRAY: str(len(arrays) - 1)}
    if isinstance(value, dict):
        entries = cast("dict[Any, Any]", value)
        if all(isinstance(key, str) for key in entries):
            return {key: _encode(name, item, arrays) for key, item in entries.items()}
    elif isinstance(value, (list, tuple)):
        return [_encode(name, item, arrays) for item in cast("list[Any]", value)]
    elif value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UnsupportedState(
        f"checkpoint({name}=…) cannot save {value!r}: a dict may contain text, numbers, lists, NumPy arrays, None, and "
        "dicts of these with text keys"
    )


def _decode(value: Any, arrays: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        if set(entries) == {_ARRAY}:
            return arrays[entries[_ARRAY]]
        return {key: _decode(item, arrays) for key, item in entries.items()}
    return value
