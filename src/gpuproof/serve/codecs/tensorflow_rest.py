"""What TensorFlow Serving's REST API refuses, with its error texts. Pure.

AWS's container wraps plain lists and CSV only if the model has no handler; what a handler sends to `context.rest_uri`, or
returns from `input_handler`, TensorFlow Serving parses itself. Source: tensorflow/serving 00f8ba53,
`tensorflow_serving/util/json_tensor.cc`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.serve.codecs.tensorflow_json import Spec
from gpuproof.serve.errors import RequestError

_SIGNATURE, _INSTANCES, _INPUTS, _EXAMPLES = "signature_name", "instances", "inputs", "examples"
_NAMES = {"float32": "float", "float64": "double", "object": "string"}
"""TensorFlow's names of types where NumPy has others."""


def parse(body: bytes) -> dict[str, Any]:
    """The object in a body. Raises RequestError (400)."""
    if not body:
        raise _error("JSON Parse error: The document is empty")
    try:
        value = json.loads(body)
    except ValueError as error:
        offset = error.pos if isinstance(error, json.JSONDecodeError) else 0
        raise _error(f"JSON Parse error: Invalid value. at offset: {offset}") from None
    if not isinstance(value, dict):
        raise _format_error(value, "Is not object")
    if not isinstance(value.get(_SIGNATURE, ""), str):
        raise _format_error(value, f"not formatted correctly. '{_SIGNATURE}' key must be a string value.")
    return value


def unknown_signature(name: str) -> RequestError:
    """The error for a signature that the model does not have."""
    return _error(f'Serving signature name: "{name}" not found in signature def')


def check_predict(body: Mapping[str, Any], specs: Sequence[Spec]) -> None:
    """Check the body of a predict request for the inputs of a signature. Raises RequestError (400)."""
    if _INSTANCES in body and _INPUTS in body:
        raise _format_error(
            body,
            f"Not formatted correctly expecting only one of '{_INPUTS}' or '{_INSTANCES}' keys to exist ",
        )
    if _INSTANCES in body:
        rows = body[_INSTANCES]
        if not isinstance(rows, list):
            raise _format_error(body, f"Excepting '{_INSTANCES}' to be an list/array")
        if not rows:
            raise _format_error(body, f"No values in '{_INSTANCES}' array")
        _check_instances(rows, {spec.name: spec for spec in specs})
    elif _INPUTS in body:
        _check_inputs(body[_INPUTS], specs)
    else:
        raise _error(f"Missing '{_INPUTS}' or '{_INSTANCES}' key")


def check_examples(body: Mapping[str, Any]) -> None:
    """Check the body of a classify or regress request. Raises RequestError (400)."""
    if _EXAMPLES not in body:
        raise _format_error(body, f"When method is classify, key '{_EXAMPLES}' is expected and was not found")
    examples = body[_EXAMPLES]
    if not isinstance(examples, list):
        raise _format_error(body, f"Expecting '{_EXAMPLES}' value to be an list/array")
    if not examples:
        raise _format_error(body, f"'{_EXAMPLES}' value is an empty array")
    for example in examples:
        if not isinstance(example, dict):
            raise _error(f"Example must be JSON object but got JSON {_kind(example)}")


def _check_instances(rows: list[Any], specs: Mapping[str, Spec]) -> None:
    named = _is_object(rows[0])
    if not named and len(specs) > 1 and not isinstance(rows[0], dict):
        raise _error(
            "instances is a plain list, but expecting list of objects as multiple input tensors required as per "
            "tensorinfo_map"
        )
    shapes: dict[str, tuple[int, ...]] = {}
    for index, row in enumerate(rows):
        failed = f"Failed to process element: {index}"
        if not named:
            if _is_object(row):
                raise _error(f"Expecting value/list but got object at item {index} of input list")
            spec = specs[min(specs)]
            _check_item(row, spec, shapes, f"{failed} of '{_INSTANCES}' list. Error: ")
            continue
        if not _is_object(row):
            raise _error(f"Expecting object but got list at item {index} of input list")
        for name, value in row.items():
            start = f"{failed} key: {name} of '{_INSTANCES}' list. Error: "
            if name not in specs:
                raise _error(f"{start}INVALID_ARGUMENT: JSON object: does not have named input: {name}")
            _check_item(value, specs[name], shapes, start)
        if row.keys() != specs.keys():
            raise _error(
                f"{failed} of '{_INSTANCES}' list. JSON object: {_text(row)} keys must be equal to: "
                f"{','.join(sorted(specs))}"
            )


def _check_inputs(value: Any, specs: Sequence[Spec]) -> None:
    if not _is_object(value):
        if len(specs) > 1:
            raise _error(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per "
                "tensorinfo_map"
            )
        _check_tensor(value, specs[0], _shape(value), "")
        return
    for spec in specs:
        if spec.name not in value:
            raise _error(f"Missing named input: {spec.name} in '{_INPUTS}' object.")
        _check_tensor(value[spec.name], spec, _shape(value[spec.name]), "")


def _check_item(value: Any, spec: Spec, shapes: dict[str, tuple[int, ...]], start: str) -> None:
    """One tensor of a row, whose shape must be that of the first row."""
    shape = _shape(value)
    _check_tensor(value, spec, shape, start + "INVALID_ARGUMENT: ")
    first = shapes.setdefault(spec.name, shape)
    if _size(first) != _size(shape):
        raise _error(
            f"{start}INVALID_ARGUMENT: Expecting tensor size: {_size(first)} but got: {_size(shape)}"
        )
    if first != shape:
        raise _error(f"{start}INVALID_ARGUMENT: Expecting shape {_sizes(first)} but got: {_sizes(shape)}")


def _check_tensor(value: Any, spec: Spec, shape: tuple[int, ...], start: str, level: int = 0) -> None:
    """Check that lists are nested as the first elements are, and that all values are of the input's type."""
    rank = len(shape)
    if not isinstance(value, list):
        if level != rank:
            raise _error(
                f"{start}JSON Value: {_text(value)} found at incorrect level: {level + 1} in the JSON DOM. "
                f"Expected at level: {rank}"
            )
        _check_value(value, spec, start)
        return
    if level >= rank:
        raise _error(f"{start}Encountered list at unexpected level: {level} expected < {rank}")
    if len(value) != shape[level]:
        raise _error(
            f"{start}Encountered list at unexpected size: {len(value)} at level: {level} expected size: {shape[level]}"
        )
    for item in value:
        _check_tensor(item, spec, shape, start, level + 1)


def _check_value(value: Any, spec: Spec, start: str) -> None:
    import numpy as np

    dtype = np.dtype(spec.dtype)
    if dtype.kind in "OSU":
        if isinstance(value, dict):
            _check_base64(value, start)
            return
        fits = isinstance(value, str)
    elif dtype.kind == "b":
        fits = isinstance(value, bool)
    elif dtype.kind in "iu":
        fits = isinstance(value, int) and not isinstance(value, bool)
    else:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not fits:
        name = _NAMES.get(dtype.name, dtype.name)
        raise _error(
            f"{start}JSON Value: {_text(value)} Type: {_kind(value)} is not of expected type: {name}"
        )


def _check_base64(value: Mapping[str, Any], start: str) -> None:
    if _is_object(value):
        raise _error(f"{start}JSON Value: {_text(value)} not formatted correctly for base64 data")
    try:
        base64.b64decode(value["b64"], validate=True)
    except (binascii.Error, ValueError):
        raise _error(f"{start}Unable to base64 decode") from None


def _is_object(value: Any) -> bool:
    """Whether a value is an object that does not stand for Base64 data."""
    return isinstance(value, dict) and not (set(value) == {"b64"} and isinstance(value["b64"], str))


def _shape(value: Any) -> tuple[int, ...]:
    """The shape that the first elements have."""
    sizes: list[int] = []
    while isinstance(value, list):
        sizes.append(len(value))
        if not value:
            break
        value = value[0]
    return tuple(sizes)


def _size(shape: Sequence[int]) -> int:
    size = 1
    for dimension in shape:
        size *= dimension
    return size


def _sizes(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def _kind(value: Any) -> str:
    if value is None:
        return "Null"
    if isinstance(value, bool):
        return "True" if value else "False"
    kinds = ((dict, "Object"), (list, "Array"), (str, "String"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "Number")


def _text(value: Any) -> str:
    return json.dumps(value, indent=4, ensure_ascii=False)


def _format_error(value: Any, message: str) -> RequestError:
    return _error(f"JSON Value: {_text(value)} {message}")


def _error(message: str) -> RequestError:
    return RequestError(400, message)
