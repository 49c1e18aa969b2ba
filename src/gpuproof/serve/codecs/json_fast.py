"""Converts JSON lists of numbers directly to arrays of 32-bit floats, the most frequent and most expensive bodies.

Uses pysimdjson if it is installed, which creates no Python objects for numbers, or else `struct`, which is twice as fast
as numpy. Both return None for anything but a regular array of numbers; parsing Python values then finds the error.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

from gpuproof.serve.interface import Body

_OPENING = ord("[")
_LARGE = 64 * 1024
_MAX_KEPT = 4 * 1024 * 1024
"""Bytes of a body for which the parser is reused: it keeps eight times the size of the largest body."""


def _import_simdjson() -> Any:
    try:
        import simdjson

        value: Any = simdjson.Parser().parse(b"[1]")
        simdjson.Array.as_buffer(value, of_type="d")
    except Exception:  # noqa: BLE001 - not installed, or another module of that name
        return None
    return simdjson


_simdjson: Any = _import_simdjson()
_parser: Any = _simdjson.Parser() if _simdjson else None
AVAILABLE = _parser is not None
"""Whether pysimdjson is installed, so that `read` can return an array."""


def import_early() -> bool:
    """Import numpy before the first body. Returns whether `read` can return an array."""
    try:
        import numpy as np
    except ImportError:
        return False
    del np
    return AVAILABLE


def read(body: Body) -> Any:
    """Read a JSON body that is an array of numbers as float32; `None` if it is not, or pysimdjson is not installed."""
    if _parser is None or not len(body) or body[0] != _OPENING:
        return None
    try:
        parser = _parser if len(body) <= _MAX_KEPT else _simdjson.Parser()
        # First, so that the parser finds the body in the CPU cache.
        lists = _openings(body)
        return _array(parser.parse(body), lists)
    except (ValueError, TypeError, RuntimeError):
        # Invalid JSON, not numbers, or nested too deeply.
        return None


def pack(value: list[Any]) -> Any:
    """Convert lists of numbers to float32; `None` if they do not form an array."""
    import numpy as np

    found = _rows(value, list)
    if found is None:
        return None
    shape, rows, _ = found
    try:
        array = np.empty(shape, np.float32)
        pack_row, step, to = struct.Struct(f"{shape[-1]}f").pack_into, shape[-1] * array.itemsize, array.data
        if array.size:
            to = to.cast("B")
        for number, row in enumerate(rows):
            pack_row(to, number * step, *row)
    except (struct.error, ValueError, TypeError):
        return None
    return array


def _array(document: Any, openings: int) -> Any:
    import numpy as np

    found = _rows(document, _simdjson.Array)
    if found is None:
        return None
    shape, _, lists = found
    numbers = np.frombuffer(document.as_buffer(of_type="d"))
    # pysimdjson also flattens a list in place of a number: `[[1, 2], [3, [4]]]`.
    if numbers.size != math.prod(shape) or openings != lists:
        return None
    # Values beyond float32 become infinity, regardless of the handler's numpy settings for overflows.
    with np.errstate(all="ignore"):
        return numbers.astype(np.float32).reshape(shape)


def _openings(body: Body) -> int:
    """Number of lists in a JSON text without strings."""
    import numpy as np

    if len(body) > _LARGE:
        # In pieces that fit into the CPU cache.
        text = np.frombuffer(body, np.uint8)
        pieces = (text[at : at + _LARGE] for at in range(0, len(text), _LARGE))
        return sum(int(np.count_nonzero(piece == _OPENING)) for piece in pieces)
    # A single row has all brackets at its start; searching for the last one is faster than counting in the whole body.
    whole = bytes(body)
    return whole.count(b"[", 0, whole.rfind(b"[") + 1)


def _rows(value: Any, kind: type) -> tuple[list[int], Sequence[Any], int] | None:
    """Shape, innermost lists and total number of nested lists; `None` if they differ in length or depth."""
    shape: list[int] = []
    rows: list[Any] = [value]
    lists = 0
    while True:
        size = len(rows[0])
        if len(rows) > 1 and any(len(row) != size for row in rows):
            return None
        shape.append(size)
        lists += len(rows)
        if not size or not isinstance(rows[0][0], kind):
            return shape, rows, lists
        rows = list(chain.from_iterable(rows))
        if not all(isinstance(row, kind) for row in rows):
            return None
