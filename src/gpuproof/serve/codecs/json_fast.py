"""JSON lists of numbers straight into an array of 32-bit floats: what most bodies are, and what a server spends most on.

By pysimdjson where it can be imported, which makes no Python object of a number; else by `struct`, which is twice as
quick as numpy. Both say nothing of what is no regular array of numbers: whoever reads Python values knows what is wrong.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

from gpuproof.serve.model.interface import Body

_OPENING = ord("[")
_LARGE = 64 * 1024
_MOST_KEPT = 4 * 1024 * 1024
"""Bytes of a body; the parser keeps eight times as much memory as its largest one took."""


def _import_simdjson() -> Any:
    try:
        import simdjson

        value: Any = simdjson.Parser().parse(b"[1]")
        simdjson.Array.as_buffer(value, of_type="d")
    except Exception:  # noqa: BLE001 - not there, or another module of that name
        return None
    return simdjson


_simdjson: Any = _import_simdjson()
_parser: Any = _simdjson.Parser() if _simdjson else None
AVAILABLE = _parser is not None
"""Whether `read` reads anything."""


def import_ahead() -> bool:
    """Import what the first body would have to wait for; false where nothing can be read."""
    try:
        import numpy as np
    except ImportError:
        return False
    del np
    return AVAILABLE


def read(body: Body) -> Any:
    """A JSON body that holds an array of numbers and nothing else, as float32 of its shape; `None` where it does not,
    or pysimdjson is not here.
    """
    if _parser is None or not len(body) or body[0] != _OPENING:
        return None
    try:
        parser = _parser if len(body) <= _MOST_KEPT else _simdjson.Parser()
        # First: the parser then finds the body in the cache, and leaves its own there.
        lists = _openings(body)
        return _array(parser.parse(body), lists)
    except (ValueError, TypeError, RuntimeError):
        # No JSON, no numbers, or nested too deeply.
        return None


def pack(value: list[Any]) -> Any:
    """Lists of numbers as float32 of their shape; `None` where they are no array of numbers."""
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
    # A list in the place of a number is flattened like the others: `[[1, 2], [3, [4]]]`.
    if numbers.size != math.prod(shape) or openings != lists:
        return None
    # Beyond float32 there is infinity, whatever a handler has told numpy about overflows.
    with np.errstate(all="ignore"):
        return numbers.astype(np.float32).reshape(shape)


def _openings(body: Body) -> int:
    """How many lists begin in a text that holds no strings."""
    import numpy as np

    if len(body) > _LARGE:
        # Piece by piece, what is compared stays in the cache.
        text = np.frombuffer(body, np.uint8)
        pieces = (text[at : at + _LARGE] for at in range(0, len(text), _LARGE))
        return sum(int(np.count_nonzero(piece == _OPENING)) for piece in pieces)
    # Those of a single row all stand at its beginning; to look for the last one is quicker than to count.
    whole = bytes(body)
    return whole.count(b"[", 0, whole.rfind(b"[") + 1)


def _rows(value: Any, kind: type) -> tuple[list[int], Sequence[Any], int] | None:
    """The shape of lists in lists, the innermost of them, and how many they are; `None` where they differ in length or
    depth.
    """
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
