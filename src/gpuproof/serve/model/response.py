"""What a handler gives back as a response: text, bytes, or pieces one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from gpuproof.serve.codecs import json
from gpuproof.serve.ipc.messages import CUSTOM_ATTRIBUTES
from gpuproof.serve.model.context import RequestProcessor
from gpuproof.serve.model.interface import Response

_WITHOUT_BODY = (204, 205, 304)
"""RFC 9110, 15.3.5, 15.3.6 and 15.4.5: a client reads no body there, and would take it for the next answer."""
_OF_THE_SERVER = frozenset(
    {"connection", "content-length", "date", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""How an answer travels is the server's to say: two lengths in one head make two answers of one."""


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


def with_said(response: Response, said: RequestProcessor) -> Response:
    """A response with what the handler said through its context: status, content type, headers.

    A `Content-Type` among the headers goes before all else, as in AWS's servers.
    """
    content_type = said.content_type or response.content_type
    attributes = None
    headers: dict[str, str] = {}
    for name, value in said.answer.items():
        lower = name.lower()
        if lower == "content-type":
            content_type = value
        elif lower == CUSTOM_ATTRIBUTES:
            attributes = value
        elif lower not in _OF_THE_SERVER:
            headers[name] = value
    return replace(
        response,
        body=b"" if said.status in _WITHOUT_BODY else response.body,
        headers=headers,
        custom_attributes=attributes,
        status=said.status,
        content_type=content_type,
    )


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
    return json.write(value) + b"\n"
