"""TensorFlow Serving's own errors for bodies that a handler sends to its REST API."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from gpuproof.serve.codecs import tensorflow_rest as rest
from gpuproof.serve.codecs.tensorflow_json import Spec
from gpuproof.serve.errors import RequestError

X = Spec("x", np.float32, (None, 2))
N = Spec("n", np.int32, (None,))
T = Spec("t", object, (None,))


def refusal(body: Any, *specs: Spec, method: str = "predict") -> str:
    """The error text for a body; empty if TensorFlow Serving accepts it."""
    try:
        values = rest.parse(body if isinstance(body, bytes) else json.dumps(body).encode())
        if method == "predict":
            rest.check_predict(values, specs or (X,))
        else:
            rest.check_examples(values)
    except RequestError as error:
        return error.message if error.status == 400 else f"status {error.status}"
    return ""


@pytest.mark.parametrize(
    ("body", "specs"),
    [
        ({"instances": [[1.0, 2.0]]}, (X,)),
        ({"instances": [{"x": [1, 2]}], "signature_name": "serving_default"}, (X,)),
        ({"inputs": [[1.0, 2.0], [3.0, 4.0]]}, (X,)),
        ({"inputs": {"x": [[1.0, 2.0]]}}, (X,)),
        ({"instances": [{"x": [1, 2], "n": 3}]}, (X, N)),
        ({"instances": [{"b64": "aGk="}, "text"]}, (T,)),
        ({"instances": [1, 2]}, (N,)),
        ({"inputs": 1}, (N,)),
    ],
)
def test_bodies_that_tensorflow_serving_accepts(body: Any, specs: tuple[Spec, ...]) -> None:
    assert refusal(body, *specs) == ""


@pytest.mark.parametrize(
    ("body", "specs", "text"),
    [
        (b"", (X,), "JSON Parse error: The document is empty"),
        (b"1.0,2.0", (X,), "JSON Parse error: "),
        ([[1.0, 2.0]], (X,), "] Is not object"),
        ("text", (X,), 'JSON Value: "text" Is not object'),
        (None, (X,), "JSON Value: null Is not object"),
        ({}, (X,), "Missing 'inputs' or 'instances' key"),
        ({"data": [1]}, (X,), "Missing 'inputs' or 'instances' key"),
        ({"instances": [], "inputs": []}, (X,), "expecting only one of 'inputs' or 'instances' keys to exist"),
        ({"instances": []}, (X,), "No values in 'instances' array"),
        ({"instances": {"x": [1, 2]}}, (X,), "Excepting 'instances' to be an list/array"),
        ({"instances": [[1, 2]], "signature_name": 3}, (X,), "'signature_name' key must be a string value"),
        ({"instances": [[1, 2], [3]]}, (X,), "Expecting tensor size: 2 but got: 1"),
        ({"instances": [[[1, 2], [3]]]}, (X,), "Encountered list at unexpected size: 1 at level: 1 expected size: 2"),
        ({"instances": [[1, [2]]]}, (X,), "Encountered list at unexpected level: 1 expected < 1"),
        ({"instances": [[[1], 2]]}, (X,), "found at incorrect level: 2 in the JSON DOM. Expected at level: 2"),
        ({"instances": [["1", 2]]}, (X,), 'JSON Value: "1" Type: String is not of expected type: float'),
        ({"instances": [[None, 2]]}, (X,), "JSON Value: null Type: Null is not of expected type: float"),
        ({"instances": [[True, 2]]}, (X,), "Type: True is not of expected type: float"),
        ({"instances": [1.5]}, (N,), "JSON Value: 1.5 Type: Number is not of expected type: int32"),
        ({"instances": [1.0]}, (N,), "is not of expected type: int32"),
        ({"instances": [3]}, (T,), "is not of expected type: string"),
        ({"instances": [{"b64": "?"}]}, (T,), "Unable to base64 decode"),
        ({"inputs": {"t": [{"b64": 3}]}}, (T,), "not formatted correctly for base64 data"),
        ({"instances": [[1, 2]]}, (X, N), "instances is a plain list, but expecting list of objects"),
        ({"instances": [{"x": [1, 2]}]}, (X, N), "keys must be equal to: n,x"),
        ({"instances": [{"y": [1, 2]}]}, (X,), "JSON object: does not have named input: y"),
        ({"instances": [{"x": [1, 2]}, [1, 2]]}, (X,), "Expecting object but got list at item 1"),
        ({"instances": [[1, 2], {"x": [1, 2]}]}, (X,), "Expecting value/list but got object at item 1"),
        ({"inputs": [[1, 2]]}, (X, N), "inputs is a plain value/list, but expecting an object"),
        ({"inputs": {"x": [[1, 2]]}}, (X, N), "Missing named input: n in 'inputs' object."),
    ],
)  # fmt: skip
def test_bodies_that_tensorflow_serving_refuses(body: Any, specs: tuple[Spec, ...], text: str) -> None:
    assert text in refusal(body, *specs)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"examples": [{"a": 1}]}, ""),
        ({"instances": [[1]]}, "key 'examples' is expected and was not found"),
        ({"examples": {"a": 1}}, "Expecting 'examples' value to be an list/array"),
        ({"examples": []}, "'examples' value is an empty array"),
        ({"examples": [[1]]}, "Example must be JSON object but got JSON Array"),
    ],
)
def test_bodies_of_classify_and_regress(body: Any, text: str) -> None:
    found = refusal(body, method="classify")
    assert (text in found) if text else found == ""
