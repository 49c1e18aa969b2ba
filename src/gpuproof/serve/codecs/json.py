"""JSON bodies. Uses orjson if it is installed, and converts lists of numbers directly to arrays."""

from __future__ import annotations

import contextlib
import json
import math
import re
from typing import Any, Callable

from gpuproof.serve import media_types
from gpuproof.serve.codecs import arrays, json_fast
from gpuproof.serve.codecs.codec import Codec
from gpuproof.serve.errors import RequestError
from gpuproof.serve.interface import Body

_NOT_NUMERIC = (b'"', b"{", b"n", b"t", b"f", b"N", b"I")
"""First letters of what cannot be in a body of numbers: texts, objects, null, true, false, NaN, Infinity."""


def read(body: Body, line: int = 1, start: int = 0) -> Any:
    """Parse a JSON body as Python values. Accepts NaN and Infinity, because Python's clients write them.

    Integers beyond 64 bits are exact without orjson, and floats with it: https://github.com/ijl/orjson#int

    Args:
        body: the payload, or a part of it.
        line: number of its first line in the payload.
        start: position of its first byte in the payload.

    Raises:
        RequestError: 400, with line and column.
    """
    if json_fast.orjson is not None:
        try:
            return json_fast.orjson.loads(body)
        except ValueError:
            pass  # Python's parser accepts NaN, and reports the position of errors
    if not len(body):
        raise RequestError(400, "The body is empty; expected JSON.")
    try:
        return json.loads(bytes(body).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RequestError(
            400, f"The body is not valid JSON: byte {start + error.start} is not UTF-8 ({error.reason})."
        ) from None
    except json.JSONDecodeError as error:
        raise invalid_json(error, line, start) from None
    except ValueError:
        raise _too_many_digits(bytes(body), start) from None
    except RecursionError:
        raise RequestError(400, "The JSON body is nested too deeply.") from None


def invalid_json(error: json.JSONDecodeError, line: int = 1, start: int = 0) -> RequestError:
    """400 for invalid JSON, with line, column and byte; `line` and `start` as in `read`."""
    byte = start + len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
    return RequestError(
        400,
        f"The body is not valid JSON: {error.msg} at line {line + error.lineno - 1}, column {error.colno} (byte {byte}).",
    )


def _too_many_digits(text: bytes, start: int) -> RequestError:
    """400 for an integer with more than `sys.get_int_max_str_digits()` digits, which Python does not parse."""
    found = max(re.finditer(rb"\d+", text), key=lambda digits: len(digits[0]), default=None)
    place = "" if found is None else f" at byte {start + found.start()}"
    return RequestError(400, f"The number{place} in the JSON body has too many digits.")


def is_numeric(body: Body) -> bool:
    """Whether a JSON body can only contain lists of numbers."""
    data = body if isinstance(body, bytes) else bytes(body)
    return not any(mark in data for mark in _NOT_NUMERIC)


def write(value: Any) -> bytes:
    """Write a value as JSON: arrays of numpy, torch and TensorFlow as lists; NaN and Infinity as AWS's toolkits do, by name.

    Raises:
        TypeError: it contains a value that JSON cannot represent.
    """
    if json_fast.orjson is None:
        return _dump(value, _to_plain)
    options = json_fast.orjson.OPT_SERIALIZE_NUMPY | json_fast.orjson.OPT_NON_STR_KEYS
    try:
        text = json_fast.orjson.dumps(value, default=_to_plain, option=options)
    except json_fast.orjson.JSONEncodeError:
        # Integers beyond 64 bits, or types for which Python's error message is clearer.
        return _dump(value, _to_plain)
    if b"null" in text and _has_non_finite(value):
        # orjson writes NaN and Infinity as null. It also writes types that Python's module does not.
        with contextlib.suppress(TypeError):
            return _dump(value, _to_shortest, ensure_ascii=False)
    return text


def _dump(value: Any, default: Callable[[Any], Any], *, ensure_ascii: bool = True) -> bytes:
    return json.dumps(value, default=default, ensure_ascii=ensure_ascii, separators=(",", ":")).encode()


def _to_plain(value: Any) -> Any:
    """Convert a value that JSON's writers do not support."""
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return value.float().tolist() if value.is_floating_point() else value.tolist()
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "numpy"):
        return value.numpy().tolist()
    raise TypeError(f"a value of type {type(value).__name__} cannot be represented in JSON")


def _to_shortest(value: Any) -> Any:
    """As `_to_plain`, but 32-bit floats with as few digits as orjson writes: 0.1 instead of 0.10000000149011612."""
    if str(getattr(value, "dtype", "")) in ("float16", "float32") and hasattr(value, "astype"):
        return value.astype("U").astype(float).tolist()
    return _to_plain(value)


def _has_non_finite(value: Any) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(map(_has_non_finite, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_has_non_finite, value))
    if value is None or isinstance(value, (str, int, bytes)):
        return False
    try:
        return _has_non_finite(_to_plain(value))
    except TypeError:
        return False


def _read_array(body: Body, dtype: Any, plain_objects: bool) -> Any:
    """Read a body as in `registry.read_body`."""
    if dtype is None:
        value = read(body)
        return value if plain_objects and isinstance(value, dict) else arrays.to_array(value)
    import numpy as np

    value = read(body)
    if plain_objects and isinstance(value, dict):
        return value
    if not isinstance(value, list):
        return arrays.to_array(value, dtype)
    if dtype is np.float32 and (array := json_fast.pack(value)) is not None:
        return array
    if not is_numeric(body):
        return arrays.to_array(value, dtype)
    try:
        return np.array(value, dtype=dtype)
    except (ValueError, OverflowError):
        raise arrays.not_an_array(value) from None


CODEC = Codec(
    media_types.JSON,
    read=_read_array,
    write=write,
    suffixes={".json": media_types.JSON},
    stream_rank=4,
    holds_arrays=True,
    read_values=read,
    schema={},
)
