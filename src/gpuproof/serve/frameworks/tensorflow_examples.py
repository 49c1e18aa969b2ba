"""TensorFlow Serving's methods `regress` and `classify`: reads `examples`, writes `results`.

Source: https://www.tensorflow.org/tfx/serving/api_rest ("Classify and Regress API").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.serve.codecs import tensorflow_json
from gpuproof.serve.codecs.tensorflow_json import Spec, TensorRequest
from gpuproof.serve.errors import RequestError

_OUTPUTS = {"regress": ("outputs",), "classify": ("classes", "scores")}
"""Names of the outputs of a signature for each method, as in tensorflow/core `signature_constants`."""

_KEY = re.compile(r"Key: [\w.-]+[.,][^\[\n]{0,150}")
"""What TensorFlow's operation ParseExample says about a feature."""


def read(tf: Any, body: Any, specs: Sequence[Spec], method: str) -> TensorRequest:
    """Convert `{"examples": [{"x": 1.0}, …], "context": {…}}` to serialized `tf.train.Example`s.

    Raises:
        RequestError: 400.
    """
    import numpy as np

    signature = tensorflow_json.signature_of(body)
    examples: Any = body.get("examples") if isinstance(body, Mapping) else None
    if not isinstance(examples, list) or not examples:
        raise RequestError(400, f"The body for {method} must be a JSON object with a list of examples.")
    if len(specs) != 1 or not np.dtype(specs[0].dtype).hasobject:
        raise RequestError(
            400,
            f"The signature {signature or 'serving_default'} does not support {method}: it does not take examples. "
            "Set signature_name in the body.",
        )
    context = body.get("context", {})
    if not isinstance(context, Mapping):
        raise RequestError(400, "context in the body must be a JSON object.")
    rows = [_serialized(tf, example, context, index) for index, example in enumerate(examples)]
    return TensorRequest({specs[0].name: np.array(rows, dtype=object)}, True, signature, method=method)


def write(outputs: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Convert the outputs of a signature to `{"results": …}`.

    Raises:
        RequestError: 400; the signature has none of the outputs of this method.
    """
    there = [name for name in _OUTPUTS[method] if name in outputs]
    if not there:
        raise RequestError(
            400,
            f"The signature does not support {method}: its outputs are {', '.join(outputs)}, not "
            f"{' or '.join(_OUTPUTS[method])}. Set signature_name in the body.",
        )
    if method == "regress":
        return {"results": outputs["outputs"].reshape(-1)}
    first = outputs[there[0]]
    rows = first.reshape(len(first), -1).shape
    labels = _texts(outputs["classes"], rows) if "classes" in outputs else [[""] * rows[1]] * rows[0]
    scores = outputs["scores"].reshape(rows).tolist() if "scores" in outputs else [[0.0] * rows[1]] * rows[0]
    return {"results": [[list(pair) for pair in zip(*row)] for row in zip(labels, scores)]}


def unsuitable(error: Exception) -> RequestError | None:
    """400 if a signature cannot parse the examples; `None` for other errors."""
    found = _KEY.search(str(error))
    if found is None:
        return None
    return RequestError(400, f"The examples lack a feature that the signature needs: {found[0].strip()}")


def _texts(array: Any, shape: tuple[int, ...]) -> list[list[str]]:
    rows: list[list[Any]] = array.reshape(shape).tolist()
    return [
        [text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text) for text in row]
        for row in rows
    ]


def _serialized(tf: Any, example: Any, context: Mapping[str, Any], index: int) -> bytes:
    if not isinstance(example, Mapping):
        raise RequestError(400, f"Example {index} in the body is not a JSON object of features.")
    features = {
        name: _feature(tf, value, f"{name} of example {index}")
        for name, value in {**context, **example}.items()
    }
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _feature(tf: Any, value: Any, place: str) -> Any:
    values = tensorflow_json.decode_texts(value if isinstance(value, list) else [value])
    train = tf.train
    try:
        if all(isinstance(item, bytes) for item in values):
            return train.Feature(bytes_list=train.BytesList(value=values))
        if all(isinstance(item, int) for item in values):
            return train.Feature(int64_list=train.Int64List(value=[int(item) for item in values]))
        return train.Feature(float_list=train.FloatList(value=values))
    except (TypeError, ValueError, OverflowError):
        raise RequestError(400, f"Feature {place} must be a list of numbers or of texts.") from None
