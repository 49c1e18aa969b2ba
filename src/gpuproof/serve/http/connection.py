"""One client's connection: receives and answers requests one after another, with a timeout for every state."""

from __future__ import annotations

import asyncio
import time
from typing import Callable, cast

from gpuproof.serve.http import http2, socket_state
from gpuproof.serve.http.exchange import JSON_HEADERS, error_body
from gpuproof.serve.http.parser import MAX_HEAD, Head, HttpError, read_head
from gpuproof.serve.http.request_body import LARGE, IncomingBody
from gpuproof.serve.http.response import HttpExchange, response_head
from gpuproof.serve.http.state import ServerState
from gpuproof.serve.ipc.messages import Headers

_LINGER = 1024 * 1024
"""Bytes that are read and dropped after a rejection."""
_CHUNKED_READ = 64 * 1024
"""Bytes read at a time from a chunked body: parsing chunks of one byte each then blocks the event loop for at most 10 ms."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_RETRY: Headers = (("retry-after", "1"),)
_LINE_ENDS = (b"\r", b"\n")
_HEAD, _BODY, _ANSWERING, _LINGERING, _CLOSED = range(5)
_NEVER = float("inf")


class Connection(asyncio.BufferedProtocol):
    """One client's connection.

    Args:
        state: what all connections of the server share.
        on_open: called with the connection when it is established.
        on_close: called with the connection when it is closed.
        restricted: answer only `/ping`, because too many connections are open.
    """

    def __init__(
        self,
        state: ServerState,
        on_open: Callable[[Connection], None],
        on_close: Callable[[Connection], None],
        *,
        restricted: bool = False,
    ) -> None:
        limits = state.limits
        self.deadline = time.monotonic() + (
            limits.closing_s if restricted or state.closing else limits.head_s
        )
        """When the connection's present state times out."""
        self._shared = state
        self._on_open = on_open
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None
        self._state = _HEAD
        self._buffer = b""
        self._head: Head | None = None
        self._body: IncomingBody | None = None
        self._body_deadline = 0.0
        self._lingered = 0
        self._exchange: HttpExchange | None = None
        self._http2: http2.Refusal | None = None
        self._restricted = restricted
        self._half_closed: socket_state.Probe | None = None
        """The client will send nothing more, but may be waiting for its response."""
        self._paused = False
        self._written = 0
        self._taken = 0
        """Bytes of responses that the client had acknowledged at the last check."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not subclasses of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._on_open(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._state = _CLOSED
        self._on_close(self)
        self._drop_body()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnect()

    def eof_received(self) -> bool:
        """Keep the connection open if a request is in progress: its client may have closed only its own half."""
        if self._state != _ANSWERING and not (self._state == _HEAD and b"\r\n\r\n" in self._buffer):
            return False
        if not self._half_closed:
            self._half_closed = socket_state.Probe(self._shared.limits.probe_s)
            self.deadline = min(self.deadline, self._answer_deadline())
        return True

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's signature
        if self._body is None:
            return self._shared.receive_buffer
        buffer = self._body.buffer
        return self._shared.receive_buffer[:_CHUNKED_READ] if buffer is None else buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._body is not None and self._body.buffer is not None:
            self._body.received_in_place(nbytes)
            self._account(self._body, nbytes, b"")
        elif nbytes < LARGE or self._state != _HEAD or self._buffer:
            self._receive(bytes(self._shared.receive_buffer[:nbytes]))
        else:
            self._receive_large(self._shared.receive_buffer[:nbytes])

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
        elif self._http2 is not None:
            self._refuse_http2(self._http2, data)
        elif self._state == _LINGERING:
            self._lingered += len(data)
            if self._lingered > _LINGER:
                self.abort()

    def _receive_large(self, data: memoryview) -> None:
        """Read a head followed by a large body: its beginning is copied only once, to its final location."""
        start = bytes(data[:LARGE])
        end = start.find(b"\r\n\r\n")
        if end > 0 and start[:1] not in _LINE_ENDS:
            self._read_request(start[:end], data[end + 4 :])
        else:
            self._receive(bytes(data))

    def pause_writing(self) -> None:
        if self._exchange is not None:
            self._exchange.paused = True
        self._client_reads()
        self.deadline = time.monotonic() + self._shared.limits.stall_s

    def resume_writing(self) -> None:
        if self._state == _ANSWERING:
            self.deadline = self._answer_deadline()
        elif self._state == _HEAD:
            self.deadline = time.monotonic() + self._shared.limits.idle_s
        if self._exchange is not None:
            self._exchange.resume()

    def extend_deadlines(self, seconds: float) -> None:
        """Extend all timeouts, after the server itself was suspended."""
        self.deadline += seconds
        self._body_deadline += seconds

    def on_deadline(self) -> None:
        """Reject the request or close the connection, unless the client has read more of its response."""
        if self._client_reads():
            self.deadline = time.monotonic() + self._shared.limits.stall_s
        elif self._state == _ANSWERING and self._half_closed:
            self._probe(self._half_closed)
        elif (
            self._state == _HEAD
            and self._shared.closing
            and not self._buffer
            and socket_state.unread(self._transport)
        ):
            self.deadline = time.monotonic() + self._shared.limits.closing_s
        elif self._state == _HEAD and self._buffer:
            self._reject(408, "timed out while waiting for the request's head")
        elif self._state == _BODY:
            self._reject(408, "timed out while waiting for the request's body")
        else:
            self.abort()

    def _answer_deadline(self) -> float:
        """When to look after a connection whose request is in progress: only if it may have been closed unnoticed."""
        return time.monotonic() + self._shared.limits.probe_s if self._half_closed else _NEVER

    def _probe(self, probe: socket_state.Probe) -> None:
        """Find out whether a client that has closed its half has closed the whole connection.

        Both look the same until something is sent: an interim response, which clients skip (RFC 9110, 15.2).
        """
        self.deadline = self._answer_deadline()
        may_send = self._head and self._head.minor_version and self._exchange and not self._exchange.status
        if self._transport is None or socket_state.has_failed(self._transport):
            self.abort()
        elif may_send and probe.is_due():
            self.write(_CONTINUE)

    def _client_reads(self) -> bool:
        """Whether the client has read more of a response since the last call."""
        unsent, taken = self._unsent(), self._taken
        self._taken = self._written - unsent - socket_state.unacknowledged(self._transport)
        return unsent > 0 and self._taken > taken

    def _unsent(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close_soon(self) -> None:
        """Close the connection after the response in progress, or if no request comes within a short time."""
        if self._state == _HEAD:
            self.deadline = min(self.deadline, time.monotonic() + self._shared.limits.closing_s)

    def close_if_idle(self) -> None:
        """Close the connection unless a request is being received or answered."""
        if self._state == _HEAD and not self._buffer:
            self._close()

    def _close(self) -> None:
        """Close the connection when the responses have been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()

    def write(self, data: bytes) -> None:
        """Send bytes of the response."""
        if self._transport is not None and self._state != _CLOSED:
            self._written += len(data)
            self._transport.write(data)

    def response_sent(self, *, keep_alive: bool) -> None:
        """Continue with the next request, or close the connection."""
        self._exchange = None
        self._head = None
        if self._state == _CLOSED or self._transport is None:
            return
        if not keep_alive or self._shared.closing or (self._half_closed and not self._buffer):
            self._state = _LINGERING
            # Time for a slow client to read the rest of the response.
            self.deadline = time.monotonic() + self._shared.limits.idle_s
            self._close()
            return
        self._state = _HEAD
        limits = self._shared.limits
        self.deadline = time.monotonic() + (limits.stall_s if self._unsent() else limits.idle_s)
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._buffer:
            asyncio.get_running_loop().call_soon(self._read_requests)

    def _read_requests(self) -> None:
        if self._state != _HEAD:
            return
        if self._buffer[:1] in _LINE_ENDS:
            # Empty lines before the request line are ignored (RFC 9112, 2.2).
            self._buffer = self._buffer.lstrip(b"\r\n")
        end = self._buffer.find(b"\r\n\r\n", 0, MAX_HEAD + 4)
        if end < 0:
            if self._half_closed:
                self._close()
            elif len(self._buffer) > MAX_HEAD:
                self._reject(431, "the request's head is too long")
            elif self._buffer and self.deadline > (limit := time.monotonic() + self._shared.limits.head_s):
                self.deadline = limit
            return
        block, rest = self._buffer[:end], self._buffer[end + 4 :]
        self._buffer = b""
        self._read_request(block, rest)

    def _read_request(self, block: bytes, rest: bytes | memoryview) -> None:
        try:
            self._begin(read_head(block), rest)
        except HttpError as error:
            if block == http2.PREFACE:
                self._shared.on_rejected(None, 505)
                self._refuse_http2(http2.Refusal("this server speaks HTTP/1.1 only"), bytes(rest))
            else:
                self._reject(error.status, error.message)

    def _begin(self, head: Head, rest: bytes | memoryview) -> None:
        self._head = head
        if self._restricted:
            self._head = head = head._replace(keep_alive=False)
            if head.path != "/ping":
                self._reject(503, "too many connections are open", _RETRY)
                return
        admitted = self._shared.application.admit(head)
        if not isinstance(admitted, int):
            self._reject_without_body(head, rest, *admitted)
            return
        if head.length is not None and head.length > admitted:
            self._reject(413, f"the body has {head.length} bytes; the limit is {admitted}")
            return
        if head.length is not None and len(rest) >= head.length:
            self._buffer = bytes(rest[head.length :])
            self._handle(bytes(rest[: head.length]))
            return
        self._state = _BODY
        self._body = IncomingBody(head.length, admitted, self._shared.memory)
        now = time.monotonic()
        self._body_deadline = now + self._shared.limits.body_s
        self.deadline = now + self._shared.limits.stall_s
        if head.headers.get("expect", "").lower() == "100-continue" and head.minor_version:
            self.write(_CONTINUE)
        if len(rest):
            self._read_body(rest)
        if self._half_closed and self._state == _BODY:
            self._close()

    def _read_body(self, data: bytes | memoryview) -> None:
        body = self._body
        assert body is not None
        before = body.received
        try:
            rest = body.feed(data)
        except HttpError as error:
            self._reject(error.status, error.message)
            return
        self._account(body, body.received - before, rest)

    def _account(self, body: IncomingBody, count: int, rest: bytes) -> None:
        """Account for `count` received bytes of the body; `rest` belongs to the next request."""
        self.deadline = min(time.monotonic() + self._shared.limits.stall_s, self._body_deadline)
        self._shared.buffered += count
        if self._shared.buffered > self._shared.limits.buffered:
            self._reject(503, "the server is receiving too many request bodies")
        elif body.done:
            self._buffer = rest
            self._drop_body()
            self._handle(body.content())

    def _drop_body(self) -> None:
        if self._body is not None:
            self._shared.buffered -= self._body.received
            self._body = None

    def _handle(self, body: bytes | memoryview) -> None:
        head = self._head
        assert head is not None
        self._state = _ANSWERING
        self.deadline = self._answer_deadline()
        self._exchange = HttpExchange(self, self._shared, head, body)
        try:
            self._shared.application.handle(self._exchange)
        except Exception:
            self.abort()
            raise

    def _reject_without_body(
        self, head: Head, rest: bytes | memoryview, status: int, message: str, headers: Headers
    ) -> None:
        """Reject a request by its head; the connection stays open if its body is already here."""
        if head.length is None or head.length > len(rest):
            self._reject(status, message, headers)
            return
        self._buffer = bytes(rest[head.length :])
        self._state = _ANSWERING
        self.deadline = self._answer_deadline()
        self._exchange = HttpExchange(self, self._shared, head, b"")
        self._shared.on_rejected(head, status)
        self._exchange.send_error(status, message, headers)

    def _refuse_http2(self, refusal: http2.Refusal, data: bytes) -> None:
        """Reject HTTP/2 with prior knowledge, in HTTP/2 frames."""
        self._http2 = refusal
        self._state = _LINGERING
        self.deadline = min(self.deadline, time.monotonic() + self._shared.limits.linger_s)
        self.write(refusal.feed(data))
        if refusal.done:
            self._http2 = None
            self._linger()

    def _reject(self, status: int, message: str, headers: Headers = ()) -> None:
        """Send an error and drop what still arrives: a reset would hide the response from a client that is still sending."""
        if self._transport is None:
            return
        self._shared.on_rejected(self._head, status)
        self._drop_body()
        self._buffer = b""
        body = error_body(message)
        fields = (*JSON_HEADERS, *headers, ("content-length", str(len(body))), ("connection", "close"))
        self._transport.write(response_head(status, fields, self._shared.date) + body)
        self._linger()

    def _linger(self) -> None:
        assert self._transport is not None
        self._buffer = b""
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._state = _LINGERING
        self._lingered = 0
        self.deadline = time.monotonic() + self._shared.limits.linger_s
