"""A pool of persistent connections to one server, and the outcome of each request on them."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

from gpuproof.loadtest.http_parser import MalformedResponse, ResponseReader
from gpuproof.loadtest.target import Target

_SWEEP_S = 0.1
_BUFFER = 64 * 1024

OnEnded = Callable[[float, float, str], None]
"""Called for each request with the time it was due, the time it ended, and its outcome: a status, `refused`, `closed`,
`timeout`, `malformed` or `unanswered`."""


class ConnectionPool:
    """A limited number of connections; requests wait if none is idle.

    Must be created and used within a running event loop. Times are on the loop's clock.

    Args:
        target: the request to send, and the server.
        limit: maximum number of connections.
        timeout: seconds after its due time at which a request fails; its connection is then closed.
        ended: called exactly once for every request.
    """

    def __init__(self, target: Target, limit: int, timeout: float, on_ended: OnEnded) -> None:
        self._target = target
        self._request = target.request()
        self._tls = ssl.create_default_context() if target.tls else None
        self._limit = limit
        self._timeout = timeout
        self._on_ended = on_ended
        self._loop = asyncio.get_running_loop()
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []
        self._opening: dict[asyncio.Task[None], float | None] = {}
        self._waiting: deque[float] = deque()
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)
        self.outstanding = 0
        """Number of requests that were submitted and have not ended."""

    async def open(self, count: int) -> None:
        """Open connections in advance, so that no request includes the time to connect. Ignores errors."""
        for _ in range(min(count, self._limit)):
            self._open(None)
        await asyncio.gather(*self._opening)

    def submit(self, due: float) -> None:
        """Send a request with the given due time as soon as a connection is idle."""
        self.outstanding += 1
        self._send_or_queue(due)

    def close(self) -> None:
        """Fail the outstanding requests as `unanswered` and close all connections."""
        self._sweeper.cancel()
        now = self._loop.time()
        for task, due in list(self._opening.items()):
            task.cancel()
            if due is not None:
                self._report(due, now, "unanswered")
        self._opening.clear()
        while self._waiting:
            self._report(self._waiting.popleft(), now, "unanswered")
        for connection in list(self._connections):
            connection.fail(now, "unanswered")

    def _send_or_queue(self, due: float) -> None:
        if self._idle:
            self._idle.pop().send(self._request, due)
        elif len(self._connections) + len(self._opening) < self._limit:
            self._open(due)
        else:
            self._waiting.append(due)

    def _open(self, due: float | None) -> None:
        task = self._loop.create_task(self._connect(due))
        self._opening[task] = due
        # It handles its errors itself; it may be cancelled by `close`.
        task.add_done_callback(lambda done: self._opening.pop(done, None))

    async def _connect(self, due: float | None) -> None:
        target = self._target
        try:
            async with asyncio.timeout(self._timeout):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._loop, self._on_idle, self._report, self._on_closed),
                    target.host,
                    target.port,
                    ssl=self._tls,
                )
        except (OSError, TimeoutError) as error:
            if due is not None:
                outcome = "timeout" if isinstance(error, TimeoutError) else "refused"
                self._report(due, self._loop.time(), outcome)
            self._opening.pop(_this_task(), None)
            self._send_next()
            return
        self._opening.pop(_this_task(), None)
        self._connections.add(connection)
        if due is None:
            self._on_idle(connection)
        else:
            connection.send(self._request, due)

    def _on_idle(self, connection: Connection) -> None:
        if self._waiting:
            connection.send(self._request, self._waiting.popleft())
        else:
            self._idle.append(connection)

    def _on_closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._send_next()

    def _send_next(self) -> None:
        if self._waiting:
            self._send_or_queue(self._waiting.popleft())

    def _report(self, due: float, now: float, outcome: str) -> None:
        self.outstanding -= 1
        self._on_ended(due, now, outcome)

    def _sweep(self) -> None:
        now = self._loop.time()
        while self._waiting and now - self._waiting[0] > self._timeout:
            self._report(self._waiting.popleft(), now, "timeout")
        for connection in list(self._connections):
            if connection.due is not None and now - connection.due > self._timeout:
                connection.fail(now, "timeout")
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)


class Connection(asyncio.BufferedProtocol):
    """A connection with one request at a time.

    It reads into its own buffer, because asyncio's streaming protocol allocates 256 KiB for every read.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_idle: Callable[[Connection], None],
        on_ended: OnEnded,
        on_closed: Callable[[Connection], None],
    ) -> None:
        self.due: float | None = None
        """Due time of the present request; None while the connection is idle."""
        self._loop = loop
        self._on_idle = on_idle
        self._report = on_ended
        self._on_closed = on_closed
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._reader = ResponseReader()
        self._transport: asyncio.Transport | None = None

    def send(self, request: bytes, due: float) -> None:
        """Send a request; the connection must be idle."""
        assert self._transport is not None
        self.due = due
        self._transport.write(request)

    def fail(self, now: float, outcome: str) -> None:
        """Fail the present request, if any, and close the connection."""
        self._finish(now, outcome)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        """Return the receive buffer."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse received bytes."""
        assert self._transport is not None
        if self.due is None:
            # Bytes without a request: an unexpected response, or the rest of a malformed one.
            self._transport.abort()
            return
        try:
            complete = self._reader.feed(bytes(self._view[:nbytes]))
        except MalformedResponse:
            self.fail(self._loop.time(), "malformed")
            return
        if not complete:
            return
        self._finish(self._loop.time(), str(self._reader.status))
        if self._reader.keep_alive and not self._transport.is_closing():
            self._on_idle(self)
        else:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete a response that ends with the connection, or fail the request."""
        complete = exc is None and self._reader.end()
        self._finish(self._loop.time(), str(self._reader.status) if complete else "closed")
        self._on_closed(self)

    def _finish(self, now: float, outcome: str) -> None:
        due, self.due = self.due, None
        if due is not None:
            self._report(due, now, outcome)


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task
