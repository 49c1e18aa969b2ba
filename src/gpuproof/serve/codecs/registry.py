"""The default `input_fn` and `output_fn` without a framework: bodies to arrays by their content type, and back."""

from __future__ import annotations

from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import csv, error_position, json, json_fast, npy
from gpuproof.serve.errors import RequestError
from gpuproof.serve.model.interface import Body

READ = (
    media_types.JSON,
    media_types.CSV,
    media_types.NPY,
    media_types.NPZ,
    media_types.JSON_LINES,
    media_types.TEXT,
    media_types.OCTETS,
    "image/*",
)
WRITTEN = (
    media_types.JSON,
    media_types.CSV,
    media_types.NPY,
    media_types.NPZ,
    media_types.JSON_LINES,
    media_types.TEXT,
    media_types.OCTETS,
)
STREAMED = (
    media_types.JSON_LINES,
    media_types.TEXT,
    media_types.OCTETS,
    media_types.JSON,
    "text/event-stream",
)
JSON_LINES = (media_types.JSON_LINES, "application/x-jsonlines", "application/x-ndjson", "application/jsons")
_DEEPEST = 32
"""Dimensions of an array: numpy has as many, and 64 since 2.0."""


def read_body(body: Body, content_type: str, numbers: Any = None, *, plain_objects: bool = False) -> Any:
    """What a body says: an array where it holds numbers, else Python values, text or the bytes themselves.

    Args:
        body: the payload.
        content_type: its media type; without one it is taken for JSON, as SageMaker's runtime sends it.
        numbers: the dtype of arrays that come as text; by itself what numpy takes them for.
        plain_objects: a JSON object stays as it is, rather than with its lists made arrays.

    Raises:
        RequestError: 400 for a body that is not what it says, 415 for a type that is not known.
    """
    if media_types.is_json(content_type):
        return _from_json(body, numbers, plain_objects)
    kind = media_types.bare(content_type)
    if kind == media_types.CSV:
        return _as(csv.read(body, only_numbers=numbers is not None), numbers)
    if kind == media_types.NPY:
        return npy.read_npy(body)
    if kind == media_types.NPZ:
        return npy.read_npz(body)
    if kind in JSON_LINES:
        return array_of(json.read_lines(body), numbers)
    if kind.startswith("text/"):
        return text_of(body)
    if kind == media_types.OCTETS or kind.partition("/")[0] in ("image", "audio", "video"):
        return bytes(body)
    raise media_types.unsupported(content_type, READ)


def write_body(prediction: Any, kind: str) -> bytes:
    """A prediction in one of the forms `WRITTEN`.

    Raises:
        RequestError: 406; the prediction has no such form.
    """
    try:
        if kind == media_types.JSON:
            return json.write(prediction)
        if kind == media_types.JSON_LINES:
            rows = (
                prediction
                if isinstance(prediction, (list, tuple)) or hasattr(prediction, "shape")
                else [prediction]
            )
            return b"".join(json.write(row) + b"\n" for row in rows)
        if kind == media_types.CSV:
            return csv.write(prediction)
        if kind == media_types.NPY:
            return npy.write_npy(prediction)
        if kind == media_types.NPZ:
            return npy.write_npz(prediction)
        return _raw(prediction)
    except TypeError as error:
        raise RequestError(406, f"The prediction cannot be written as {kind}: {error}.") from error


def text_of(body: Body) -> str:
    """A body in UTF-8 as text. Raises RequestError (400)."""
    try:
        return str(bytes(body), "utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(400, f"The body is no text: byte {error.start} is not UTF-8.") from None


def too_deep() -> RequestError:
    """400 for lists or objects within each other that are more than anything here follows."""
    return RequestError(400, "The body's lists or objects are nested too deeply: they make no array.")


def no_numbers(data: Any, place: str = "") -> RequestError:
    """400 for a body that holds something else where the model takes arrays of numbers, and where.

    Args:
        data: what was read of it, as Python values.
        place: where in the body that is, as `['a']`.
    """
    if error_position.depth(data) > _DEEPEST:
        return too_deep()
    held = error_position.stray(data, place) or "numbers that make no array"
    return RequestError(400, f"The model takes arrays of numbers; the body holds {held}.")


def array_of(value: Any, numbers: Any = None) -> Any:
    """A list of numbers as an array, an object with such lists as arrays by name; anything else as it is.

    Raises:
        RequestError: 400; the lists differ in length.
    """
    import numpy as np

    if isinstance(value, dict):
        return {name: array_of(item, numbers) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        if error_position.is_numeric(value):
            raise _unfit(value) from None
        return value
    return _as(array, numbers) if array.dtype.kind in "fiub" else value


def _from_json(body: Body, numbers: Any, plain_objects: bool) -> Any:
    if numbers is None:
        value = json.read(body)
        return value if plain_objects and isinstance(value, dict) else array_of(value)
    import numpy as np

    small = numbers is np.float32
    if small and (array := json_fast.read(body)) is not None:
        return array
    value = json.read(body)
    if plain_objects and isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return array_of(value, numbers)
    if small and (array := json_fast.pack(value)) is not None:
        return array
    if not json.is_numeric(body):
        return array_of(value, numbers)
    try:
        return np.array(value, dtype=numbers)
    except (ValueError, OverflowError):
        raise _unfit(value) from None


def _as(array: Any, numbers: Any) -> Any:
    return array if numbers is None or array.dtype.kind not in "fiub" else array.astype(numbers, copy=False)


def _unfit(value: list[Any]) -> RequestError:
    """Why lists of numbers make no array."""
    if error_position.depth(value) > _DEEPEST:
        return too_deep()
    stray = error_position.stray(value)
    if stray:
        return RequestError(400, f"The body's lists make no array: they hold {stray}.")
    return RequestError(400, "The body's lists of numbers differ in length or depth: they make no array.")


def _raw(prediction: Any) -> bytes:
    if isinstance(prediction, (bytes, bytearray, memoryview)):
        return bytes(prediction)
    if isinstance(prediction, str):
        return prediction.encode()
    raise TypeError(f"it is a {type(prediction).__name__}, neither text nor bytes")
