"""Writing HTTP/1.1: one answer on one connection, whole or in pieces."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.http.parser import Head
from gpuproof.serve.ipc.messages import Headers

if TYPE_CHECKING:
    from gpuproof.serve.http.connection import Connection
    from gpuproof.serve.http.server import HttpServer

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class HttpExchange(Exchange):
    """One request on a connection."""

    def __init__(
        self, connection: Connection, server: HttpServer, head: Head, body: bytes | memoryview
    ) -> None:
        super().__init__(head.method, head.path, head.query, head.headers, body)
        self.paused = False
        self._connection: Connection | None = connection
        self._server = server
        self._keep = head.keep_alive
        self._minor = head.minor_version
        self._chunked = False
        self._unread = 0

    def answer(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        connection = self._leave()
        if connection is None:
            return
        self.status = status
        if status == 204:
            # It has neither (RFC 9110, 8.6 and 15.3.5).
            body, length = b"", b""
        else:
            length = b"content-length: %d\r\n" % len(body)
        self.sent = len(body)
        parts: list[bytes | memoryview] = [_start(status, tuple(headers)), self._server.date, length]
        if not self._keep or self._server.closing:
            parts.append(b"connection: close\r\n")
        elif not self._minor:
            parts.append(b"connection: keep-alive\r\n")
        parts.append(b"\r\n")
        if self.method != "HEAD":
            parts.append(body)
        connection.write(b"".join(parts))
        connection.answered(keep=self._keep)

    def begin(self, status: int, headers: Headers) -> None:
        if self._connection is None:
            return
        self.status = status
        # HTTP/1.0 knows no chunks: there the end of the connection ends the answer.
        self._chunked = self._minor == 1
        self._keep = self._keep and self._chunked
        fields = [pair for pair in headers if pair[0] != "content-length"]
        fields += [("transfer-encoding", "chunked")] if self._chunked else [("connection", "close")]
        self._connection.write(head_of_answer(status, fields, self._server.date))

    def piece(self, piece: bytes | memoryview) -> None:
        if self._connection is None:
            return
        if len(piece) and self.method != "HEAD":
            self.sent += len(piece)
            framed = (b"%x\r\n" % len(piece), piece, b"\r\n") if self._chunked else (piece,)
            self._connection.write(b"".join(framed))
        self._unread += 1
        if not self.paused:
            self.resumed()

    def end(self) -> None:
        connection = self._leave()
        if connection is None:
            return
        if self._chunked:
            connection.write(b"0\r\n\r\n")
        connection.answered(keep=self._keep)

    def abort(self) -> None:
        connection = self._leave()
        if connection is not None:
            connection.cut()

    def resumed(self) -> None:
        """The client has taken what was sent."""
        self.paused = False
        unread, self._unread = self._unread, 0
        if unread and self.on_read is not None:
            self.on_read(unread)

    def lost(self) -> None:
        """The client has gone."""
        self._connection = None
        gone, self.on_gone = self.on_gone, None
        if gone is not None:
            gone()

    def _leave(self) -> Connection | None:
        connection, self._connection = self._connection, None
        return connection


def head_of_answer(status: int, fields: Headers, date: bytes) -> bytes:
    """The head of an answer, with the empty line that ends it.

    Args:
        date: the line of the `Date` header.
    """
    return b"".join((_start(status, tuple(fields)), date, b"\r\n"))


@lru_cache(maxsize=64)
def _start(status: int, fields: tuple[tuple[str, str], ...]) -> bytes:
    """The status line and the lines of headers; those of one model's answers are mostly the same."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    if _unsafe(lines, len(fields)):
        # A handler's header with a line break would write headers of its own.
        lines = "".join([f"{_one_line(name)}: {_one_line(value)}\r\n" for name, value in fields])
    first = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n".encode()
    return first + lines.encode("latin-1", "replace")


def _unsafe(lines: str, fields: int) -> bool:
    return lines.count("\n") != fields or lines.count("\r") != fields or "\0" in lines


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\0", " ")
