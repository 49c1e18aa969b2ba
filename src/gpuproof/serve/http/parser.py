"""Strict parser for HTTP/1.1 (RFC 9112): request heads and chunked bodies. Pure; errors are `HttpError`s.

Rejects everything that two parsers could interpret differently, because that allows request smuggling past proxies.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from gpuproof.serve.ipc.memo import memoized
from gpuproof.serve.ipc.messages import RequestHeaders

MAX_HEAD = 64 * 1024
"""Maximum size in bytes of a request line with all its headers."""
_MAX_HEADERS = 200
_MAX_CHUNK_LINE = 1024
_REQUEST = re.compile(r"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-~]+) HTTP/1\.([01])")
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\x00]*)?")


class HttpError(Exception):
    """A request that is malformed, too large, or not supported.

    Args:
        status: the status of the response, after which the connection is closed.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class Head(NamedTuple):
    """A request's head. Must not be modified: requests with identical bytes share one.

    Args:
        length: the announced length of the body in bytes; `None` for a chunked body.
        keep_alive: whether the client will send another request on this connection.
    """

    method: str
    path: str
    query: str
    headers: RequestHeaders
    length: int | None
    keep_alive: bool
    minor_version: int


@memoized
def read_head(block: bytes) -> Head:
    """Parse a request's head, given without the empty line that ends it.

    Raises:
        HttpError: 400, 431 or 501.
    """
    first, *lines = block.split(b"\r\n")
    request = _REQUEST.fullmatch(first.decode("latin-1"))
    if request is None:
        raise HttpError(400, "the request line is not valid HTTP/1.1")
    if len(lines) > _MAX_HEADERS:
        raise HttpError(431, f"more than {_MAX_HEADERS} headers")
    headers = _headers(lines)
    method, target, minor = request.group(1), request.group(2), int(request.group(3))
    if "host" not in headers and minor == 1:
        raise HttpError(400, "the Host header is missing")
    path, _, query = _path(target).partition("?")
    connection = headers.get("connection", "").lower()
    keep_alive = "close" not in connection if minor == 1 else "keep-alive" in connection
    return Head(method, path, query, headers, _length(headers, minor), keep_alive, minor)


class ChunkedBody:
    """Incremental parser for a chunked body."""

    def __init__(self) -> None:
        self.received = 0
        """Bytes of the body received so far."""
        self.done = False
        self._missing = 0
        self._in_trailer = False

    def feed(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Return the pieces of the body in `data`, and the rest of `data` that is not parsed yet.

        Raises:
            HttpError: 400.
        """
        pieces: list[bytes] = []
        # By index: slicing off each chunk would copy the rest every time.
        at, size = 0, len(data)
        while at < size and not self.done:
            if self._missing > 2:
                piece = data[at : at + self._missing - 2]
                pieces.append(piece)
                self.received += len(piece)
                self._missing -= len(piece)
                at += len(piece)
                continue
            if self._missing:
                if size - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise HttpError(400, "a chunk is longer than its size")
                self._missing = 0
                at += 2
                continue
            end = data.find(b"\r\n", at, at + _MAX_CHUNK_LINE + 2)
            if end < 0:
                if size - at > _MAX_CHUNK_LINE:
                    raise HttpError(400, "a chunk's first line is too long")
                break
            self._line(data[at:end])
            at = end + 2
        return pieces, data[at:]

    def _line(self, line: bytes) -> None:
        if self._in_trailer:
            # Trailers are ignored.
            self.done = not line
            return
        size = _CHUNK.fullmatch(line)
        if size is None:
            raise HttpError(400, "a chunk does not start with its size")
        length = int(size.group(1), 16)
        if length == 0:
            self._in_trailer = True
        else:
            self._missing = length + 2


def _headers(lines: list[bytes]) -> RequestHeaders:
    headers = RequestHeaders()
    for line in lines:
        name, value = _read_line(line)
        if name not in headers:
            headers[name] = value
        elif name in ("host", "content-length", "transfer-encoding", "content-type"):
            raise HttpError(400, f"duplicate {name} header")
        else:
            headers[name] = f"{headers[name]}, {value}"
    return headers


@memoized
def _read_line(line: bytes) -> tuple[str, str]:
    name, colon, value = line.decode("latin-1").partition(":")
    if not _NAME.fullmatch(name):
        raise HttpError(400, "malformed header name")
    if not colon or _CONTROL.search(value):
        raise HttpError(400, "malformed header line")
    return name.lower(), value.strip(" \t")


def _path(target: str) -> str:
    if target.startswith("/"):
        return target
    if target.lower().startswith(("http://", "https://")):
        return "/" + target.partition("//")[2].partition("/")[2]
    if target == "*":
        return target
    raise HttpError(400, "the request target is not a path")


def _length(headers: RequestHeaders, minor: int) -> int | None:
    coding = headers.get("transfer-encoding")
    length = headers.get("content-length")
    if coding is not None:
        if length is not None or minor == 0:
            raise HttpError(400, "the length of the body is given twice")
        if coding.lower() != "chunked":
            raise HttpError(501, "only the transfer coding chunked is supported")
        return None
    if length is None:
        return 0
    if not length.isascii() or not length.isdigit() or len(length) > 18:
        raise HttpError(400, "Content-Length is not a number")
    return int(length)
