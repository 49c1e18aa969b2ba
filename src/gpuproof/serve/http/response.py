"""Writes HTTP/1.1 responses to a connection, complete or streamed."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.http.parser import Head
from gpuproof.serve.http.state import ServerState
from gpuproof.serve.ipc.messages import Headers

_STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}


class ResponseWriter(Protocol):
    """The connection that a response is written to."""

    def write(self, data: bytes) -> None:
        """Send bytes of the response."""
        ...

    def response_sent(self, *, keep_alive: bool) -> None:
        """Continue with the next request, or close the connection."""
        ...

    def abort(self) -> None:
        """Close the connection immediately."""
        ...


class HttpExchange(Exchange):
    """One request on an HTTP/1.1 connection, and its response."""

    def __init__(
        self, writer: ResponseWriter, state: ServerState, head: Head, body: bytes | memoryview
    ) -> None:
        super().__init__(head.method, head.path, head.query, head.headers, body)
        self.paused = False
        self._writer: ResponseWriter | None = writer
        self._state = state
        self._keep_alive = head.keep_alive
        self._minor = head.minor_version
        self._chunked = False
        self._unread = 0

    def respond(self, status: int, headers: Headers, body: bytes | memoryview) -> None:
        writer = self._detach()
        if writer is None:
            return
        self.status = status
        if status == 204:
            # Has neither a body nor a Content-Length (RFC 9110, 8.6 and 15.3.5).
            body, length = b"", b""
        else:
            length = b"content-length: %d\r\n" % len(body)
        self.sent = len(body)
        parts: list[bytes | memoryview] = [_start(status, tuple(headers)), self._state.date, length]
        if not self._keep_alive or self._state.closing:
            parts.append(b"connection: close\r\n")
        elif not self._minor:
            parts.append(b"connection: keep-alive\r\n")
        parts.append(b"\r\n")
        if self.method != "HEAD":
            parts.append(body)
        writer.write(b"".join(parts))
        writer.response_sent(keep_alive=self._keep_alive)

    def start_stream(self, status: int, headers: Headers) -> None:
        if self._writer is None:
            return
        self.status = status
        # HTTP/1.0 has no chunked coding: closing the connection ends the response.
        self._chunked = self._minor == 1
        self._keep_alive = self._keep_alive and self._chunked
        fields = [pair for pair in headers if pair[0] != "content-length"]
        fields += [("transfer-encoding", "chunked")] if self._chunked else [("connection", "close")]
        self._writer.write(response_head(status, fields, self._state.date))

    def send_piece(self, piece: bytes | memoryview) -> None:
        if self._writer is None:
            return
        if len(piece) and self.method != "HEAD":
            self.sent += len(piece)
            framed = (b"%x\r\n" % len(piece), piece, b"\r\n") if self._chunked else (piece,)
            self._writer.write(b"".join(framed))
        self._unread += 1
        if not self.paused:
            self.resume()

    def end_stream(self) -> None:
        writer = self._detach()
        if writer is None:
            return
        if self._chunked:
            writer.write(b"0\r\n\r\n")
        writer.response_sent(keep_alive=self._keep_alive)

    def abort(self) -> None:
        writer = self._detach()
        if writer is not None:
            writer.abort()

    def resume(self) -> None:
        """Report that the client has read everything that was sent."""
        self.paused = False
        unread, self._unread = self._unread, 0
        if unread and self.on_pieces_read is not None:
            self.on_pieces_read(unread)

    def disconnect(self) -> None:
        """Report that the client has disconnected."""
        self._writer = None
        callback, self.on_disconnect = self.on_disconnect, None
        if callback is not None:
            callback()

    def _detach(self) -> ResponseWriter | None:
        writer, self._writer = self._writer, None
        return writer


def response_head(status: int, fields: Headers, date: bytes) -> bytes:
    """The head of a response, including the empty line at its end.

    Args:
        date: the line of the `Date` header.
    """
    return b"".join((_start(status, tuple(fields)), date, b"\r\n"))


@lru_cache(maxsize=64)
def _start(status: int, fields: tuple[tuple[str, str], ...]) -> bytes:
    """The status line and the header lines; most responses of a model share them."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in fields])
    if _unsafe(lines, len(fields)):
        # A line break in a handler's header would inject further headers.
        lines = "".join([f"{_one_line(name)}: {_one_line(value)}\r\n" for name, value in fields])
    first = _STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n".encode()
    return first + lines.encode("latin-1", "replace")


def _unsafe(lines: str, fields: int) -> bool:
    return lines.count("\n") != fields or lines.count("\r") != fields or "\0" in lines


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ").replace("\0", " ")
