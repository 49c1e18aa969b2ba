"""Connections that stay open to one server, and what becomes of each request on them."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable

from gpuproof.loadtest.http_parser import AnswerReader, Malformed
from gpuproof.loadtest.target import Target

_SWEEP_S = 0.1
_BUFFER = 64 * 1024

Ended = Callable[[float, float, str], None]
"""Told of each request: when it was due, when it ended, and how: a status, `refused`, `closed`, `timeout`, `malformed`."""


class Pool:
    """At most so many connections; a request that finds none free waits its turn.

    Must be made and used within a running event loop. Times are the loop's own.

    Args:
        target: what to send, and where.
        limit: connections at most.
        timeout: seconds after its due time at which a request is given up; its connection is then closed.
        ended: told of every request exactly once.
    """

    def __init__(self, target: Target, limit: int, timeout: float, ended: Ended) -> None:
        self._target = target
        self._request = target.request()
        self._tls = ssl.create_default_context() if target.tls else None
        self._limit = limit
        self._timeout = timeout
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []
        self._opening: dict[asyncio.Task[None], float | None] = {}
        self._waiting: deque[float] = deque()
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)
        self.outstanding = 0
        """Requests that were submitted and have not ended."""

    async def open(self, count: int) -> None:
        """Open connections beforehand, so that no request pays for it; a server that refuses is found out later."""
        for _ in range(min(count, self._limit)):
            self._open(None)
        await asyncio.gather(*self._opening)

    def submit(self, due: float) -> None:
        """Send a request that was due at this time, as soon as a connection is free."""
        self.outstanding += 1
        self._send_or_queue(due)

    def close(self) -> None:
        """Give up what is outstanding as `unanswered` and close everything."""
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
            connection.give_up(now, "unanswered")

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
        # Its errors are handled within; what is left is the cancelling by `close`.
        task.add_done_callback(lambda done: self._opening.pop(done, None))

    async def _connect(self, due: float | None) -> None:
        target = self._target
        try:
            async with asyncio.timeout(self._timeout):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._loop, self._free, self._report, self._lost),
                    target.host,
                    target.port,
                    ssl=self._tls,
                )
        except (OSError, TimeoutError) as error:
            if due is not None:
                outcome = "timeout" if isinstance(error, TimeoutError) else "refused"
                self._report(due, self._loop.time(), outcome)
            self._opening.pop(_this_task(), None)
            self._next()
            return
        self._opening.pop(_this_task(), None)
        self._connections.add(connection)
        if due is None:
            self._free(connection)
        else:
            connection.send(self._request, due)

    def _free(self, connection: Connection) -> None:
        if self._waiting:
            connection.send(self._request, self._waiting.popleft())
        else:
            self._idle.append(connection)

    def _lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._next()

    def _next(self) -> None:
        if self._waiting:
            self._send_or_queue(self._waiting.popleft())

    def _report(self, due: float, now: float, outcome: str) -> None:
        self.outstanding -= 1
        self._ended(due, now, outcome)

    def _sweep(self) -> None:
        now = self._loop.time()
        while self._waiting and now - self._waiting[0] > self._timeout:
            self._report(self._waiting.popleft(), now, "timeout")
        for connection in list(self._connections):
            if connection.due is not None and now - connection.due > self._timeout:
                connection.give_up(now, "timeout")
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)


class Connection(asyncio.BufferedProtocol):
    """One connection with one request on it at a time.

    It reads into a buffer of its own: asyncio's other kind of protocol allocates 256 KiB for every read.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        free: Callable[[Connection], None],
        report: Ended,
        lost: Callable[[Connection], None],
    ) -> None:
        self.due: float | None = None
        """When the request that is on it was due; None while it is idle."""
        self._loop = loop
        self._free = free
        self._report = report
        self._lost = lost
        self._buffer = bytearray(_BUFFER)
        self._view = memoryview(self._buffer)
        self._reader = AnswerReader()
        self._transport: asyncio.Transport | None = None

    def send(self, request: bytes, due: float) -> None:
        """Send a request; the connection must be idle."""
        assert self._transport is not None
        self.due = due
        self._transport.write(request)

    def give_up(self, now: float, outcome: str) -> None:
        """End the request that is on it, if any, and the connection."""
        self._finish(now, outcome)
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:  # noqa: ARG002
        """Where asyncio is to read to."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """asyncio has read."""
        assert self._transport is not None
        if self.due is None:
            # Nothing was asked: an answer out of turn, or what follows an answer that was malformed.
            self._transport.abort()
            return
        try:
            complete = self._reader.feed(bytes(self._view[:nbytes]))
        except Malformed:
            self.give_up(self._loop.time(), "malformed")
            return
        if not complete:
            return
        self._finish(self._loop.time(), str(self._reader.status))
        if self._reader.keep_alive and not self._transport.is_closing():
            self._free(self)
        else:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        complete = exc is None and self._reader.end()
        self._finish(self._loop.time(), str(self._reader.status) if complete else "closed")
        self._lost(self)

    def _finish(self, now: float, outcome: str) -> None:
        due, self.due = self.due, None
        if due is not None:
            self._report(due, now, outcome)


def _this_task() -> asyncio.Task[None]:
    task = asyncio.current_task()
    assert task is not None
    return task
