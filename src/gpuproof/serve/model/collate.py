"""Collates requests into batches: which requests fit together, joining their data, splitting the prediction. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable

from gpuproof.serve.codecs.tensorflow_json import TensorAnswer, TensorRequest

Concatenate = Callable[[Sequence[Any]], Any]


class NotSplittable(Exception):
    """A batch prediction that does not have one row per input row."""


def batch_key_of(data: Any) -> Hashable | None:
    """A key that data of equal shape, except for the first dimension, shares; `None` if it must be computed alone."""
    if isinstance(data, TensorRequest):
        key = batch_key_of(data.inputs)
        return None if key is None else (data.signature, data.by_row, data.model, data.method, key)
    if hasattr(data, "shape") and hasattr(data, "dtype"):
        shape = tuple(data.shape)
        return None if not shape or not shape[0] else ("array", data.dtype, shape[1:])
    if isinstance(data, Mapping):
        return _key_of_parts(tuple(data.keys()), list(data.values()))
    if isinstance(data, list) and data and all(isinstance(item, (str, bytes, dict)) for item in data):
        return ("texts",)
    if isinstance(data, (list, tuple)):
        return _key_of_parts(type(data).__name__, list(data))
    return None


def call_of(data: Any) -> Hashable:
    """Which model and signature the data is for, if there are several; each supports batches or not."""
    return (data.model, data.signature, data.method) if isinstance(data, TensorRequest) else None


def length_of(data: Any) -> int:
    """Number of rows."""
    if isinstance(data, TensorRequest):
        return length_of(data.inputs)
    if hasattr(data, "shape"):
        return int(data.shape[0])
    if isinstance(data, Mapping):
        return length_of(next(iter(data.values())))
    return len(data) if isinstance(data[0], (str, bytes, dict)) else length_of(data[0])


def join(items: Sequence[Any], concatenate: Concatenate) -> Any:
    """Join data with the same key along the first dimension."""
    first = items[0]
    if isinstance(first, TensorRequest):
        return replace(first, inputs=join([item.inputs for item in items], concatenate))
    if hasattr(first, "shape"):
        return concatenate(items)
    if isinstance(first, Mapping):
        return {name: join([item[name] for item in items], concatenate) for name in first}
    if isinstance(first[0], (str, bytes, dict)):
        return [row for item in items for row in item]
    joined = [join(parts, concatenate) for parts in zip(*items)]
    return tuple(joined) if isinstance(first, tuple) else joined


def split(prediction: Any, lengths: Sequence[int]) -> list[Any]:
    """Split the prediction of a batch into the rows of each request.

    Raises:
        Inseparable: its number of rows is not that of all requests.
    """
    total = sum(lengths)
    if isinstance(prediction, TensorAnswer):
        return [replace(prediction, outputs=outputs) for outputs in split(prediction.outputs, lengths)]
    if hasattr(prediction, "shape"):
        if not prediction.shape or prediction.shape[0] != total:
            raise NotSplittable(f"a prediction of shape {tuple(prediction.shape)} for {total} rows")
        return _slices(prediction, lengths)
    if isinstance(prediction, Mapping):
        columns = [split(part, lengths) for part in prediction.values()]
        return [dict(zip(prediction, row)) for row in zip(*columns)]
    if isinstance(prediction, (list, tuple)):
        if prediction and all(_rows(item) == total for item in prediction):
            columns = [split(part, lengths) for part in prediction]
            return [row if isinstance(prediction, tuple) else list(row) for row in zip(*columns)]
        if len(prediction) == total:
            return _slices(prediction, lengths)
    raise NotSplittable(f"a {type(prediction).__name__} for {total} rows")


def probes_for(items: Sequence[Any]) -> Sequence[Any] | None:
    """Return items that differ from each other, so that mixed-up rows would be noticed.

    If the given items are all equal, shifts the values of each by another step. Returns `None` if they are still equal,
    for example all zeros.
    """
    if any(not almost_equal(items[0], item) for item in items[1:]):
        return items
    shifted = [_shifted(item, step) for step, item in enumerate(items)]
    return None if almost_equal(shifted[0], shifted[1]) else shifted


def almost_equal(one: Any, other: Any) -> bool:
    """Whether two predictions, or two inputs, in host memory are equal, except for rounding errors."""
    import numpy as np

    if isinstance(one, TensorAnswer):
        return almost_equal(one.outputs, other.outputs)
    if isinstance(one, TensorRequest):
        return almost_equal(one.inputs, other.inputs)
    if isinstance(one, Mapping):
        return all(almost_equal(value, other[name]) for name, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(almost_equal(a, b) for a, b in zip(one, other))
    if not hasattr(one, "shape"):
        return bool(one == other)
    a, b = _to_numpy(one), _to_numpy(other)
    if a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return bool((a == b).all())
    largest = float(np.nanmax(np.abs(a), initial=0.0))
    return bool(np.allclose(a, b, rtol=1e-2, atol=1e-3 * max(largest, 1e-6), equal_nan=True))


def _key_of_parts(names: Hashable, parts: list[Any]) -> Hashable | None:
    keys = [batch_key_of(part) for part in parts]
    if not keys or any(key is None for key in keys) or len({length_of(part) for part in parts}) != 1:
        return None
    return (names, *keys)


def _shifted(data: Any, step: int) -> Any:
    if isinstance(data, TensorRequest):
        return replace(data, inputs=_shifted(data.inputs, step))
    if isinstance(data, Mapping):
        return {name: _shifted(value, step) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        parts = [_shifted(value, step) for value in data]
        return tuple(parts) if isinstance(data, tuple) else parts
    if not hasattr(data, "shape") or not data.shape:
        return data
    import numpy as np

    # Rolled along the last dimension, so that all values are ones that the model accepts.
    return data.roll(step, -1) if hasattr(data, "roll") else np.roll(data, step, axis=-1)


def _slices(rows: Any, lengths: Sequence[int]) -> list[Any]:
    pieces: list[Any] = []
    start = 0
    for length in lengths:
        pieces.append(rows[start : start + length])
        start += length
    return pieces


def _rows(value: Any) -> int | None:
    return int(value.shape[0]) if hasattr(value, "shape") and value.shape else None


def _to_numpy(array: Any) -> Any:
    import numpy as np

    if hasattr(array, "detach"):
        array = array.detach().cpu()
        array = array.float() if array.is_floating_point() else array
    return np.asarray(array)
