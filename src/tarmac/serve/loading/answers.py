"""What a handler gives back as a response: text, bytes, or pieces one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from tarmac.serve.codecs import json_text
from tarmac.serve.handler import Response


def is_stream(value: Any) -> bool:
    """Whether a handler answers in pieces: a generator or another iterator, but no file or array."""
    return isinstance(value, Iterator)


def answer_of(result: Any, content_type: str) -> Response:
    """A response of a text, of bytes or of an iterator over pieces of either.

    The first piece is asked for at once: what fails before anything was sent can still be answered with an error.
    """
    if isinstance(result, str):
        return Response(result.encode(), content_type)
    if isinstance(result, (bytes, bytearray, memoryview)):
        return Response(bytes(result), content_type)
    pieces = iter(result)
    first = list(_some(pieces))
    return Response(_Pieces(chain(first, pieces), result), content_type)


class _Pieces(Iterator[bytes]):
    """Pieces as bytes; closing it closes the handler's generator, so that its `finally` runs."""

    def __init__(self, pieces: Iterator[Any], source: Any) -> None:
        self._pieces = pieces
        self._source = source

    def __next__(self) -> bytes:
        return _piece(next(self._pieces))

    def close(self) -> None:
        close = getattr(self._source, "close", None)
        if callable(close):
            close()


def _some(pieces: Iterator[Any]) -> Iterator[Any]:
    for piece in pieces:
        yield piece
        return


def _piece(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return json_text.write(value) + b"\n"
