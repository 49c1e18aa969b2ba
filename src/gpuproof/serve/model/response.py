"""Converts the result of a handler to a response: text, bytes, or an iterator over pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from gpuproof.serve.codecs import json
from gpuproof.serve.interface import Response
from gpuproof.serve.ipc.messages import CUSTOM_ATTRIBUTES
from gpuproof.serve.model.context import RequestProcessor

_WITHOUT_BODY = (204, 205, 304)
"""Statuses without a body (RFC 9110, 15.3.5, 15.3.6 and 15.4.5): a client would parse it as the next response."""
_SERVER_HEADERS = frozenset(
    {"connection", "content-length", "date", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that only the server may set: with two lengths, a client could read one response as two."""


def is_stream(value: Any) -> bool:
    """Whether a handler streams its response: a generator or another iterator, but not a list or an array."""
    return isinstance(value, Iterator)


def response_of(result: Any, content_type: str) -> Response:
    """Make a response from text, bytes, or an iterator over pieces of either.

    Fetches the first piece immediately, because the server can respond with an error only before it has sent anything.
    """
    if isinstance(result, str):
        return Response(result.encode(), content_type)
    if isinstance(result, (bytes, bytearray, memoryview)):
        return Response(bytes(result), content_type)
    pieces = iter(result)
    first = list(_first(pieces))
    return Response(_Pieces(chain(first, pieces), result), content_type)


def with_context(response: Response, context: RequestProcessor) -> Response:
    """Apply what the handler has set on its context: status, content type, headers.

    A `Content-Type` among the headers takes precedence, as in AWS's servers.
    """
    content_type = context.content_type or response.content_type
    attributes = None
    headers: dict[str, str] = {}
    for name, value in context.answer.items():
        lower = name.lower()
        if lower == "content-type":
            content_type = value
        elif lower == CUSTOM_ATTRIBUTES:
            attributes = value
        elif lower not in _SERVER_HEADERS:
            headers[name] = value
    return replace(
        response,
        body=b"" if context.status in _WITHOUT_BODY else response.body,
        headers=headers,
        custom_attributes=attributes,
        status=context.status,
        content_type=content_type,
    )


class _Pieces(Iterator[bytes]):
    """An iterator over pieces as bytes. Closing it closes the handler's generator, so that its `finally` runs."""

    def __init__(self, pieces: Iterator[Any], source: Any) -> None:
        self._pieces = pieces
        self._source = source

    def __next__(self) -> bytes:
        return _piece(next(self._pieces))

    def close(self) -> None:
        close = getattr(self._source, "close", None)
        if callable(close):
            close()


def _first(pieces: Iterator[Any]) -> Iterator[Any]:
    for piece in pieces:
        yield piece
        return


def _piece(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    return json.write(value) + b"\n"
