"""JSON bodies, by orjson where it can be imported, and numbers straight into an array."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from gpuproof.serve.errors import RequestError
from gpuproof.serve.model.interface import Body

_MARKS = (b'"', b"{", b"n", b"t", b"f", b"N", b"I")
"""What no body of bare numbers holds: texts, objects, null, true, false, NaN, Infinity."""


def _import_orjson() -> Any:
    try:
        import orjson
    except ImportError:
        return None
    return orjson


_orjson: Any = _import_orjson()


def read(body: Body, line: int = 1, start: int = 0) -> Any:
    """A JSON body as Python values. NaN and Infinity are taken, as Python's own clients write them.

    Args:
        body: the payload, or a part of it.
        line: the number of its first line in the payload.
        start: the place of its first byte in the payload.

    Raises:
        RequestError: 400, with line and column.
    """
    if _orjson is not None:
        try:
            return _orjson.loads(body)
        except ValueError:
            pass  # Python's reader decides: it takes NaN, and knows the place
    if not len(body):
        raise RequestError(400, "The body is empty; JSON was announced.")
    try:
        return json.loads(bytes(body).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RequestError(
            400, f"The body is no JSON: byte {start + error.start} is not UTF-8 ({error.reason})."
        ) from None
    except json.JSONDecodeError as error:
        raise invalid(error, line, start) from None
    except ValueError:
        raise _too_long(bytes(body), start) from None
    except RecursionError:
        raise RequestError(400, "The body is no JSON that can be read: it is nested too deeply.") from None


def read_lines(body: Body) -> list[Any]:
    """A body of JSON lines as Python values; empty lines are passed over. Raises RequestError as `read` does."""
    values: list[Any] = []
    start = 0
    for number, line in enumerate(bytes(body).splitlines(keepends=True), 1):
        text = line.rstrip()
        if text:
            values.append(read(text, number, start))
        start += len(line)
    return values


def invalid(error: json.JSONDecodeError, line: int = 1, start: int = 0) -> RequestError:
    """What is wrong with a JSON text, in words, with the place; `line` and `start` as `read` has them."""
    byte = start + len(error.doc[: error.pos].encode("utf-8", "surrogatepass"))
    return RequestError(
        400,
        f"The body is no JSON: {error.msg} at line {line + error.lineno - 1}, column {error.colno} (byte {byte}).",
    )


def _too_long(text: bytes, start: int) -> RequestError:
    """Python reads no integer of more digits than `sys.get_int_max_str_digits()`, which takes the square of its time."""
    found = max(re.finditer(rb"\d+", text), key=lambda digits: len(digits[0]), default=None)
    place = "" if found is None else f" at byte {start + found.start()}"
    return RequestError(400, f"The body is no JSON that can be read: the number{place} has too many digits.")


def is_numeric(body: Body) -> bool:
    """Whether a JSON body can hold nothing but lists of numbers."""
    data = body if isinstance(body, bytes) else bytes(body)
    return not any(mark in data for mark in _MARKS)


def write(value: Any) -> bytes:
    """A value as JSON: arrays (of numpy, torch, TensorFlow) as lists; what is no finite number becomes null.

    Raises:
        TypeError: it holds what JSON has no form for.
    """
    if _orjson is not None:
        options = _orjson.OPT_SERIALIZE_NUMPY | _orjson.OPT_NON_STR_KEYS
        try:
            return _orjson.dumps(value, default=_plain, option=options)
        except _orjson.JSONEncodeError:
            pass  # integers beyond 64 bits, and what Python's writer tells more plainly
    try:
        return _dump(value)
    except ValueError:
        return _dump(_finite(value))


def _dump(value: Any) -> bytes:
    return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    """What a writer that knows no arrays can write instead."""
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
    raise TypeError(f"a value of type {type(value).__name__} has no form in JSON")


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if value is None or isinstance(value, (str, int)):
        return value
    return _finite(_plain(value))
