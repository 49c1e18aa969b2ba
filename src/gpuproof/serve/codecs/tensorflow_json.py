"""TensorFlow Serving's JSON: reads `instances` and `inputs` as arrays by name, writes `predictions` and `outputs`. Pure.

Source: https://www.tensorflow.org/tfx/serving/api_rest ("Predict API"). As in AWS's TensorFlow Serving container, plain
lists, single objects, CSV and JSON lines count as instances.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.serve.codecs import json, json_lines
from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Body

_BETWEEN_LINES = re.compile(rb"[}\]]\s*\n\s*[\[{]")
"""Between the values of JSON lines that are lists or objects."""


@dataclass(frozen=True)
class Spec:
    """One input of a model.

    Args:
        dtype: numpy dtype; `object` for texts.
        shape: sizes, `None` for a size that may vary; `None` for any rank.
    """

    name: str
    dtype: Any
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class TensorRequest:
    """Arrays by input name, and the format of the response.

    Args:
        by_row: respond with `predictions`, one element per row, else with `outputs`, by column.
        signature: the requested signature; empty for the default one.
        model: name and version of the model, if there are several.
        method: `predict`, `regress` or `classify`.
    """

    inputs: Mapping[str, Any]
    by_row: bool = True
    signature: str = ""
    model: tuple[str, int] | None = None
    method: str = "predict"


@dataclass(frozen=True)
class TensorAnswer:
    """Arrays by output name."""

    outputs: Mapping[str, Any]
    by_row: bool = True
    method: str = "predict"


def signature_of(body: Any) -> str:
    """The signature that a body requests; empty for the default one. Raises RequestError (400)."""
    name = body.get("signature_name", "") if isinstance(body, Mapping) else ""
    if not isinstance(name, str):
        raise RequestError(400, "signature_name in the body must be text.")
    return name


def read_values(body: Body) -> tuple[Any, bool]:
    """Parse a JSON body, which may be JSON lines as in AWS's container. Raises RequestError (400).

    Returns the values, and whether they are those of JSON lines.
    """
    try:
        return json.read(body), False
    except RequestError:
        if not _BETWEEN_LINES.search(bytes(body)):
            raise
        try:
            return json_lines.read(body), True
        except RequestError:
            pass  # the error of the whole body is more helpful
        raise


def read(body: Any, specs: Sequence[Spec], *, is_lines: bool = False) -> TensorRequest:
    """Convert a body to arrays with the types and shapes of the model's inputs.

    Args:
        body: the JSON as Python values: an object with `instances` or `inputs`, a list of instances, or one instance.
        is_lines: the body is a list with the values of JSON lines.

    Raises:
        RequestError: 400 for another format, or a missing or unknown input; 422 for a wrong shape.
    """
    signature = signature_of(body)
    if isinstance(body, Mapping) and "inputs" in body and "instances" in body:
        raise RequestError(400, "The body contains both instances and inputs; only one of them is allowed.")
    if isinstance(body, Mapping) and "inputs" in body:
        columns = body["inputs"]
        named = columns if _is_named(columns, specs) else {_single(specs).name: columns}
        return TensorRequest(_arrays(named, specs), by_row=False, signature=signature)
    rows = body["instances"] if isinstance(body, Mapping) and "instances" in body else body
    if not isinstance(rows, list) or (rows is body and not is_lines and _is_vector(rows, specs)):
        rows = [rows]
    if not rows:
        raise RequestError(400, "instances in the body is empty.")
    return TensorRequest(_arrays(_columns(rows, specs), specs), by_row=True, signature=signature)


def from_array(array: Any, specs: Sequence[Spec]) -> TensorRequest:
    """Convert an array (from NPY or CSV), or arrays by name (from NPZ), to inputs. Raises RequestError as `read` does."""
    named = array if isinstance(array, Mapping) else {_single(specs).name: array}
    if len(specs) == 1 and len(named) == 1 and specs[0].name not in named:
        # An NPZ with a single array with numpy's default name.
        named = {specs[0].name: next(iter(named.values()))}
    return TensorRequest(_arrays(named, specs), by_row=True)


def without_columns(array: Any, specs: Sequence[Spec]) -> Any:
    """Convert a single column of CSV to one number per row, as in AWS's container, if the model accepts that."""
    single = len(specs) == 1 and (specs[0].shape is None or len(specs[0].shape) == 1)
    return array.reshape(-1) if single and array.ndim == 2 and array.shape[1] == 1 else array


def row_count_error(inputs: Mapping[str, Any], specs: Sequence[Spec]) -> RequestError | None:
    """422 if the inputs differ in their number of rows; only called for a model that failed, because some support it."""
    rows = {
        spec.name: inputs[spec.name].shape[0]
        for spec in specs
        if spec.shape and spec.shape[0] is None and inputs[spec.name].ndim
    }
    if len(set(rows.values())) < 2:
        return None
    sizes = ", ".join(f"{name} has {count}" for name, count in rows.items())
    return RequestError(
        422, f"The model rejects the data: its inputs differ in their number of rows ({sizes})."
    )


def write(answer: TensorAnswer) -> dict[str, Any]:
    """Convert a response to TensorFlow Serving's format."""
    columns = {name: _to_json(name, array) for name, array in answer.outputs.items()}
    if not answer.by_row:
        return {"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    return {"predictions": [dict(zip(columns, row)) for row in zip(*columns.values())]}


def _is_vector(rows: list[Any], specs: Sequence[Spec]) -> bool:
    """Whether a list without `instances` is a single instance: it is flat, and the model's rows are not numbers."""
    if not rows or any(isinstance(row, (list, Mapping)) for row in rows):
        return False
    return len(specs) != 1 or specs[0].shape is None or len(specs[0].shape) > 1


def _is_named(value: Any, specs: Sequence[Spec]) -> bool:
    return isinstance(value, Mapping) and "b64" not in value and bool(specs)


def _columns(rows: list[Any], specs: Sequence[Spec]) -> dict[str, Any]:
    if not _is_named(rows[0], specs):
        return {_single(specs).name: rows}
    names = rows[0].keys()
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping) or row.keys() != names:
            raise RequestError(
                400,
                f"The body's instance {index} has different inputs than the first: {', '.join(map(str, names))}.",
            )
    return {name: [row[name] for row in rows] for name in names}


def _single(specs: Sequence[Spec]) -> Spec:
    if len(specs) != 1:
        raise RequestError(
            400, f"The model has several inputs; name them: {', '.join(spec.name for spec in specs)}."
        )
    return specs[0]


def _arrays(named: Mapping[str, Any], specs: Sequence[Spec]) -> dict[str, Any]:
    known = {spec.name: spec for spec in specs}
    missing, unknown = known.keys() - named.keys(), named.keys() - known.keys()
    if missing or unknown:
        raise RequestError(
            400,
            f"The model's inputs are {', '.join(known)}; the body "
            + (
                f"lacks {', '.join(sorted(missing))}."
                if missing
                else f"has {', '.join(sorted(map(str, unknown)))}."
            ),
        )
    return {name: _array(named[name], spec) for name, spec in known.items()}


def _array(value: Any, spec: Spec) -> Any:
    import numpy as np

    dtype = np.dtype(spec.dtype)
    try:
        array = np.array(decode_texts(value), dtype=object) if dtype.hasobject else np.asarray(value)
    except ValueError:
        array = None
    if array is None or (not dtype.hasobject and array.dtype.hasobject):
        raise RequestError(
            400,
            f"The values of input {spec.name} do not form an array of {dtype}: some differ in length or are null.",
        )
    if not dtype.hasobject and array.dtype.kind not in "fiub":
        raise RequestError(400, f"The values of input {spec.name} are not numbers; it requires {dtype}.")
    if dtype.kind in "iu" and array.dtype.kind == "f" and not np.equal(np.mod(array, 1), 0).all():
        raise RequestError(400, f"The values of input {spec.name} are not integers; it requires {dtype}.")
    if dtype.hasobject:
        _check_texts(array, spec)
    _check_shape(array.shape, spec)
    return array if dtype.hasobject else array.astype(dtype, copy=False)


def _check_shape(shape: tuple[int, ...], spec: Spec) -> None:
    expected = spec.shape
    if expected is None:
        return
    if len(shape) != len(expected) or any(e is not None and e != s for e, s in zip(expected, shape)):
        sizes = ", ".join("any" if size is None else str(size) for size in expected)
        raise RequestError(
            422, f"The model rejects the data: input {spec.name} expected shape ({sizes}), given {shape}."
        )


def _check_texts(array: Any, spec: Spec) -> None:
    for place, item in enumerate(array.flat):
        if not isinstance(item, (bytes, str)):
            found = _KINDS.get(type(item).__name__, f"a {type(item).__name__}")
            where = f" at position {place}" if array.ndim else ""
            raise RequestError(
                400,
                f"The values of input {spec.name} do not form an array of texts: they contain {found}{where}.",
            )


_KINDS = {
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "NoneType": "null",
    "dict": "an object",
}


def decode_texts(value: Any) -> Any:
    """Encode texts as bytes, and decode `{"b64": …}`."""
    if isinstance(value, list):
        return [decode_texts(item) for item in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and set(value) == {"b64"}:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise RequestError(400, "A b64 value in the body is not valid Base64.") from None
    return value


def _to_json(name: str, array: Any) -> Any:
    if array.dtype.kind not in "OS":
        return array
    return _texts(array.tolist(), as_bytes=name.endswith("_bytes"))


def _texts(value: Any, as_bytes: bool) -> Any:
    if isinstance(value, list):
        return [_texts(item, as_bytes) for item in value]
    if not isinstance(value, bytes):
        return value
    return {"b64": base64.b64encode(value).decode()} if as_bytes else value.decode("utf-8", "replace")
