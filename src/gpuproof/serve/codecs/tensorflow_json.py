"""TensorFlow Serving's JSON: `instances` and `inputs` to arrays by name, `predictions` and `outputs` back. Pure.

Source of the form: https://www.tensorflow.org/tfx/serving/api_rest ("Predict API"); that bare lists, single objects, CSV and
JSON lines are taken for instances is what AWS's TensorFlow Serving container does.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.serve.errors import RequestError


@dataclass(frozen=True)
class Spec:
    """One input of a model.

    Args:
        name: as the signature calls it.
        dtype: numpy's; `object` for texts.
        shape: sizes, `None` where any will do; `None` for any rank.
    """

    name: str
    dtype: Any
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class TensorRequest:
    """Arrays by their input's name, and how the answer is to look.

    Args:
        by_row: `predictions`, one element a row; else `outputs`, by column.
        signature: the signature that was asked for.
    """

    inputs: Mapping[str, Any]
    by_row: bool = True
    signature: str = ""


@dataclass(frozen=True)
class TensorAnswer:
    """Arrays by their output's name."""

    outputs: Mapping[str, Any]
    by_row: bool = True


def signature_of(body: Any) -> str:
    """The signature that a body asks for; empty for the default. Raises RequestError (400)."""
    name = body.get("signature_name", "") if isinstance(body, Mapping) else ""
    if not isinstance(name, str):
        raise RequestError(400, "The body's signature_name is no text.")
    return name


def read(body: Any, specs: Sequence[Spec]) -> TensorRequest:
    """A body's arrays, in the types and shapes that the model's inputs have.

    Args:
        body: the JSON as Python values: an object with `instances` or `inputs`, a list of instances, or one instance.
        specs: the inputs of the signature that it asks for.

    Raises:
        RequestError: 400 for another form, a missing or unknown input; 422 for a shape that the input refuses.
    """
    signature = signature_of(body)
    if isinstance(body, Mapping) and "inputs" in body and "instances" in body:
        raise RequestError(400, "The body holds both instances and inputs; it may hold one of them.")
    if isinstance(body, Mapping) and "inputs" in body:
        columns = body["inputs"]
        named = columns if _is_named(columns, specs) else {_only(specs).name: columns}
        return TensorRequest(_arrays(named, specs), by_row=False, signature=signature)
    rows = body["instances"] if isinstance(body, Mapping) and "instances" in body else body
    if not isinstance(rows, list):
        rows = [rows]
    if not rows:
        raise RequestError(400, "The body's instances are empty.")
    return TensorRequest(_arrays(_columns(rows, specs), specs), by_row=True, signature=signature)


def from_array(array: Any, specs: Sequence[Spec]) -> TensorRequest:
    """An array (of NPY or CSV), or arrays by name (of NPZ), for a model. Raises RequestError as `read` does."""
    named = array if isinstance(array, Mapping) else {_only(specs).name: array}
    if len(specs) == 1 and len(named) == 1 and specs[0].name not in named:
        # An NPZ whose only array has numpy's own name.
        named = {specs[0].name: next(iter(named.values()))}
    return TensorRequest(_arrays(named, specs), by_row=True)


def misfit(inputs: Mapping[str, Any], specs: Sequence[Spec]) -> RequestError | None:
    """422 where the inputs differ in their number of rows, for a model that failed with them: some do well with it."""
    rows = {
        spec.name: inputs[spec.name].shape[0]
        for spec in specs
        if spec.shape and spec.shape[0] is None and inputs[spec.name].ndim
    }
    if len(set(rows.values())) < 2:
        return None
    said = ", ".join(f"{name} has {count}" for name, count in rows.items())
    return RequestError(
        422, f"The model refuses the data: its inputs differ in their number of rows ({said})."
    )


def write(answer: TensorAnswer) -> dict[str, Any]:
    """An answer as TensorFlow Serving says it."""
    columns = {name: _shown(name, array) for name, array in answer.outputs.items()}
    if not answer.by_row:
        return {"outputs": next(iter(columns.values())) if len(columns) == 1 else columns}
    if len(columns) == 1:
        return {"predictions": next(iter(columns.values()))}
    return {"predictions": [dict(zip(columns, row)) for row in zip(*columns.values())]}


def _is_named(value: Any, specs: Sequence[Spec]) -> bool:
    return isinstance(value, Mapping) and "b64" not in value and bool(specs)


def _columns(rows: list[Any], specs: Sequence[Spec]) -> dict[str, Any]:
    if not _is_named(rows[0], specs):
        return {_only(specs).name: rows}
    names = rows[0].keys()
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping) or row.keys() != names:
            raise RequestError(
                400,
                f"The body's instance {index} has other inputs than the first: {', '.join(map(str, names))}.",
            )
    return {name: [row[name] for row in rows] for name in names}


def _only(specs: Sequence[Spec]) -> Spec:
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

    wanted = np.dtype(spec.dtype)
    try:
        array = np.array(_decoded(value), dtype=object) if wanted.hasobject else np.asarray(value)
    except ValueError:
        array = None
    if array is None or (not wanted.hasobject and array.dtype.hasobject):
        raise RequestError(
            400,
            f"The values of input {spec.name} make no array of {wanted}: some differ in length or are null.",
        )
    if not wanted.hasobject and array.dtype.kind not in "fiub":
        raise RequestError(400, f"The values of input {spec.name} are no numbers; it takes {wanted}.")
    if wanted.kind in "iu" and array.dtype.kind == "f" and not np.equal(np.mod(array, 1), 0).all():
        raise RequestError(400, f"The values of input {spec.name} are no whole numbers; it takes {wanted}.")
    if wanted.hasobject:
        _check_texts(array, spec)
    _check(array.shape, spec)
    return array if wanted.hasobject else array.astype(wanted, copy=False)


def _check(shape: tuple[int, ...], spec: Spec) -> None:
    expected = spec.shape
    if expected is None:
        return
    if len(shape) != len(expected) or any(e is not None and e != s for e, s in zip(expected, shape)):
        said = ", ".join("any" if size is None else str(size) for size in expected)
        raise RequestError(
            422, f"The model refuses the data: input {spec.name} expected shape ({said}), given {shape}."
        )


def _check_texts(array: Any, spec: Spec) -> None:
    for place, item in enumerate(array.flat):
        if not isinstance(item, (bytes, str)):
            held = _KINDS.get(type(item).__name__, f"a {type(item).__name__}")
            where = f" at place {place}" if array.ndim else ""
            raise RequestError(
                400, f"The values of input {spec.name} make no array of texts: it holds {held}{where}."
            )


_KINDS = {
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "NoneType": "null",
    "dict": "an object",
}


def _decoded(value: Any) -> Any:
    """Texts as bytes, and `{"b64": …}` as what it stands for."""
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Mapping) and set(value) == {"b64"}:
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise RequestError(400, "The body's b64 is no Base64.") from None
    return value


def _shown(name: str, array: Any) -> Any:
    if array.dtype.kind not in "OS":
        return array
    return _texts(array.tolist(), as_bytes=name.endswith("_bytes"))


def _texts(value: Any, as_bytes: bool) -> Any:
    if isinstance(value, list):
        return [_texts(item, as_bytes) for item in value]
    if not isinstance(value, bytes):
        return value
    return {"b64": base64.b64encode(value).decode()} if as_bytes else value.decode("utf-8", "replace")
