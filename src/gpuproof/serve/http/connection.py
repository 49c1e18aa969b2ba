"""One client's connection: requests are received and answered one after another, and nobody is waited for too long."""

from __future__ import annotations

import asyncio
import fcntl
import sys
import termios
import time
from typing import TYPE_CHECKING, cast

from gpuproof.serve.frontend.pending_request import JSON, error_body
from gpuproof.serve.http.parser import MAX_HEAD, Head, HttpError, read_head
from gpuproof.serve.http.request_body import LARGE, IncomingBody
from gpuproof.serve.http.response import HttpExchange, head_of_answer
from gpuproof.serve.ipc.messages import Headers

if TYPE_CHECKING:
    from gpuproof.serve.http.server import HttpServer

_LINGER = 1024 * 1024
_IN_PIECES = 64 * 1024
"""Bytes at a time of a body in chunks: chunks of one byte each take the loop 10 ms then, and the others wait no longer."""
_LINE_ENDS = (b"\r", b"\n")
_HEAD, _BODY, _ANSWERING, _LINGERING, _CLOSED = range(5)
_NEVER = float("inf")


class Connection(asyncio.BufferedProtocol):
    """One client's connection; requests are answered one after another."""

    def __init__(self, server: HttpServer) -> None:
        self.due = time.monotonic() + server.limits.head_s
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._state = _HEAD
        self._buffer = b""
        self._head: Head | None = None
        self._body: IncomingBody | None = None
        self._body_due = 0.0
        self._lingered = 0
        self._exchange: HttpExchange | None = None
        self._paused = False
        self._written = 0
        self._taken = 0
        """Bytes of answers that the client had acknowledged when the connection was last checked."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own
        self._state = _CLOSED
        self._server.connections.discard(self)
        self._forget_body()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.lost()

    def eof_received(self) -> bool:
        # Who will send no more is taken to be gone, as most servers do: what it asked for is cancelled.
        return False

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's own
        if self._body is None:
            return self._server.arriving
        place = self._body.place
        return self._server.arriving[:_IN_PIECES] if place is None else place

    def buffer_updated(self, nbytes: int) -> None:
        if self._body is not None and self._body.place is not None:
            self._body.filled(nbytes)
            self._took(self._body, nbytes, b"")
        elif nbytes < LARGE or self._state != _HEAD or self._buffer:
            self._receive(bytes(self._server.arriving[:nbytes]))
        else:
            self._receive_much(self._server.arriving[:nbytes])

    def _receive(self, data: bytes) -> None:
        if self._state == _BODY:
            self._read_body(data)
        elif self._state == _HEAD:
            self._buffer = self._buffer + data if self._buffer else data
            self._read_requests()
        elif self._state == _ANSWERING:
            self._buffer += data
            if len(self._buffer) > MAX_HEAD and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
        elif self._state == _LINGERING:
            self._lingered += len(data)
            if self._lingered > _LINGER:
                self.cut()

    def _receive_much(self, data: memoryview) -> None:
        """The beginning of a large body is copied once, from where it was received to where it stays."""
        start = bytes(data[:LARGE])
        end = start.find(b"\r\n\r\n")
        if end > 0 and start[:1] not in _LINE_ENDS:
            self._read_request(start[:end], data[end + 4 :])
        else:
            self._receive(bytes(data))

    def pause_writing(self) -> None:
        if self._exchange is not None:
            self._exchange.paused = True
        self._takes_more()
        self.due = time.monotonic() + self._server.limits.stall_s

    def resume_writing(self) -> None:
        if self._state == _ANSWERING:
            self.due = _NEVER
        elif self._state == _HEAD:
            self.due = time.monotonic() + self._server.limits.idle_s
        if self._exchange is not None:
            self._exchange.resumed()

    def forgive(self, stopped: float) -> None:
        """So many seconds were nobody's fault."""
        self.due += stopped
        self._body_due += stopped

    def overdue(self) -> None:
        """It has stayed as it is for too long."""
        if self._takes_more():
            self.due = time.monotonic() + self._server.limits.stall_s
        elif self._state == _HEAD and self._buffer:
            self._refuse(408, "the request's head did not come")
        elif self._state == _BODY:
            self._refuse(408, "the request's body did not come")
        else:
            self.cut()

    def _takes_more(self) -> bool:
        """Whether an answer is on its way of which the client has taken something since this was last asked."""
        unsent = self._unsent
        taken, self._taken = self._taken, self._written - unsent - self._unacknowledged
        return unsent > 0 and self._taken > taken

    @property
    def _unsent(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def _unacknowledged(self) -> int:
        # A kernel keeps megabytes for a client, and takes nothing more until a third of them has been acknowledged.
        if self._transport is None or self._state == _CLOSED:
            return 0
        try:
            queued = fcntl.ioctl(
                self._transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4)
            )
        except OSError:  # a system that does not count them for a socket
            return 0
        return int.from_bytes(queued, sys.byteorder)

    def close_if_idle(self) -> None:
        """Close it unless a request is being received or answered."""
        if self._state == _HEAD and not self._buffer and self._transport is not None:
            self._transport.close()

    def cut(self) -> None:
        """Close it at once."""
        if self._transport is not None:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        """Send bytes of the answer."""
        if self._transport is not None and self._state != _CLOSED:
            self._written += len(data)
            self._transport.write(data)

    def answered(self, *, keep: bool) -> None:
        """The present answer is complete."""
        self._exchange = None
        self._head = None
        if self._state == _CLOSED or self._transport is None:
            return
        if not keep or self._server.closing:
            self._state = _LINGERING
            # For a client that reads slowly; the rest is sent meanwhile.
            self.due = time.monotonic() + self._server.limits.idle_s
            self._transport.close()
            return
        self._state = _HEAD
        limits = self._server.limits
        self.due = time.monotonic() + (limits.stall_s if self._unsent else limits.idle_s)
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._buffer:
            asyncio.get_running_loop().call_soon(self._read_requests)

    def _read_requests(self) -> None:
        if self._state != _HEAD:
            return
        if self._buffer[:1] in _LINE_ENDS:
            # An empty line before the request line is passed over (RFC 9112, 2.2).
            self._buffer = self._buffer.lstrip(b"\r\n")
        end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEAD + 4)
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                self._refuse(431, "the request's head is too long")
            elif self._buffer and self.due > (limit := time.monotonic() + self._server.limits.head_s):
                self.due = limit
            return
        block, rest = self._buffer[:end], self._buffer[end + 4 :]
        self._buffer = b""
        self._read_request(block, rest)

    def _read_request(self, block: bytes, rest: bytes | memoryview) -> None:
        try:
            self._begin(read_head(block), rest)
        except HttpError as error:
            self._refuse(error.status, error.message)

    def _begin(self, head: Head, rest: bytes | memoryview) -> None:
        self._head = head
        admitted = self._server.front.admit(head)
        if not isinstance(admitted, int):
            self._refuse_politely(head, rest, *admitted)
            return
        if head.length is not None and head.length > admitted:
            self._refuse(413, f"the body has {head.length} bytes, and {admitted} are allowed")
            return
        if head.length is not None and len(rest) >= head.length:
            self._buffer = bytes(rest[head.length :])
            self._handle(bytes(rest[: head.length]))
            return
        self._state = _BODY
        self._body = IncomingBody(head.length, admitted, self._server.memory)
        now = time.monotonic()
        self._body_due = now + self._server.limits.body_s
        self.due = now + self._server.limits.stall_s
        if head.headers.get("expect", "").lower() == "100-continue" and head.minor_version:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if len(rest):
            self._read_body(rest)

    def _read_body(self, data: bytes | memoryview) -> None:
        body = self._body
        assert body is not None
        before = body.received
        try:
            rest = body.feed(data)
        except HttpError as error:
            self._refuse(error.status, error.message)
            return
        self._took(body, body.received - before, rest)

    def _took(self, body: IncomingBody, count: int, rest: bytes) -> None:
        """So many more bytes of the body are there; the rest is the next request's."""
        self.due = min(time.monotonic() + self._server.limits.stall_s, self._body_due)
        self._server.buffered += count
        if self._server.buffered > self._server.limits.buffered:
            self._refuse(503, "too many bodies are being received")
        elif body.done:
            self._buffer = rest
            self._forget_body()
            self._handle(body.content())

    def _forget_body(self) -> None:
        if self._body is not None:
            self._server.buffered -= self._body.received
            self._body = None

    def _handle(self, body: bytes | memoryview) -> None:
        head = self._head
        assert head is not None
        self._state = _ANSWERING
        self.due = _NEVER
        self._exchange = HttpExchange(self, self._server, head, body)
        try:
            self._server.front.handle(self._exchange)
        except Exception:
            self.cut()
            raise

    def _refuse_politely(
        self, head: Head, rest: bytes | memoryview, status: int, message: str, headers: Headers
    ) -> None:
        """Refuse what needs no body; the connection stays where there is none to read."""
        if head.length is None or head.length > len(rest):
            self._refuse(status, message, headers)
            return
        self._buffer = bytes(rest[head.length :])
        self._state = _ANSWERING
        self.due = _NEVER
        self._exchange = HttpExchange(self, self._server, head, b"")
        self._server.refused(head, status)
        self._exchange.answer(status, (*JSON, *headers), error_body(message))

    def _refuse(self, status: int, message: str, headers: Headers = ()) -> None:
        """Answer, and read on for a moment: a reset would keep the answer from a client that still sends."""
        if self._transport is None:
            return
        self._server.refused(self._head, status)
        self._forget_body()
        self._buffer = b""
        body = error_body(message)
        fields = (*JSON, *headers, ("content-length", str(len(body))), ("connection", "close"))
        self._transport.write(head_of_answer(status, fields, self._server.date) + body)
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._state = _LINGERING
        self._lingered = 0
        self.due = time.monotonic() + self._server.limits.linger_s
