"""Converts JSON lists of numbers to arrays of 32-bit floats, the most frequent and most expensive bodies.

orjson parses them, if it is installed, and `struct` packs the numbers twice as fast as numpy. Both return None for anything but a
regular array of numbers; parsing Python values then finds the error.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

from gpuproof.serve.interface import Body

_OPENING = ord("[")


def _import_orjson() -> Any:
    try:
        import orjson

        usable: bool = orjson.loads(b"[1]") == [1]
    except Exception:  # noqa: BLE001 - not installed, or another module of that name
        return None
    return orjson if usable else None


orjson: Any = _import_orjson()
"""The module; None if it is not installed."""
AVAILABLE = orjson is not None
"""Whether `read` can return an array."""


def import_early() -> bool:
    """Import numpy before the first body. Returns whether `read` can return an array."""
    try:
        import numpy as np
    except ImportError:
        return False
    del np
    return AVAILABLE


def read(body: Body) -> Any:
    """Read a JSON body that is an array of numbers as float32; `None` if it is not, or orjson is not installed."""
    if orjson is None or not len(body) or body[0] != _OPENING:
        return None
    try:
        value = orjson.loads(body)
    except ValueError:
        return None
    return pack(value)


def pack(value: list[Any]) -> Any:
    """Convert lists of numbers to float32; `None` if they do not form an array."""
    import numpy as np

    found = _rows(value)
    if found is None:
        return None
    shape, rows = found
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


def _rows(value: list[Any]) -> tuple[list[int], Sequence[Any]] | None:
    """Shape and innermost lists; `None` if lists differ in length or depth."""
    shape: list[int] = []
    rows: list[Any] = [value]
    while True:
        size = len(rows[0])
        if len(rows) > 1 and any(len(row) != size for row in rows):
            return None
        shape.append(size)
        if not size or not isinstance(rows[0][0], list):
            return shape, rows
        rows = list(chain.from_iterable(rows))
        if not all(isinstance(row, list) for row in rows):
            return None
