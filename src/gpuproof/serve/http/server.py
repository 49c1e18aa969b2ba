"""The HTTP/1.1 server: one event loop, no thread, no user code.

It is this project's own, because an image needs nothing but Python for it and because it was measured (64 connections,
bodies of 7.7 kB, two shared cores): 92,000 requests a second, where Granian does 34,000, uvicorn with httptools 29,000
and uvicorn on plain Python 8,400. The same front also runs as an ASGI application (`asgi`) on any of these.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from email.utils import formatdate
from typing import Callable, Optional, Protocol

from gpuproof.serve.http.connection import Connection
from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.http.parser import Head
from gpuproof.serve.ipc.messages import Headers
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.serve.workers.suspend_detector import Stops

_SWEEP_S = 0.25
_ARRIVING = 256 * 1024


class Front(Protocol):
    """What answers requests."""

    def admit(self, head: Head) -> tuple[int, str, Headers] | int:
        """Before the body is read: how many bytes it may have, or status, message and headers of a refusal."""
        ...

    def handle(self, exchange: Exchange) -> None:
        """Answer a request, now or later."""
        ...


Refused = Callable[[Optional[Head], int], None]
"""Told of each request that was refused before it was whole: its head where that was read, and the status."""


@dataclass(frozen=True)
class Limits:
    """How patient the server is, in seconds and bytes."""

    head_s: float = 10
    """From the first byte of a head to its last."""
    idle_s: float = 75
    """Between two requests of one connection."""
    stall_s: float = 10
    """Without a byte of a body, or without the client taking a byte of its answer."""
    body_s: float = 60
    """From the head to the last byte of the body."""
    linger_s: float = 2
    """To a client that was refused and still sends, so that it reads why."""
    buffered: int = 1 << 30
    """Bytes of unfinished bodies of all connections together."""


class HttpServer:
    """Listens, and owns all connections.

    Args:
        front: answers requests.
        limits: see there.
        refused: see there.
        memory: where large bodies are received, if the predictors see it too.
    """

    def __init__(
        self,
        front: Front,
        limits: Limits | None = None,
        refused: Refused = lambda _head, _status: None,
        memory: BodyMemory | None = None,
    ) -> None:
        self.front = front
        self.memory = memory
        self.refused = refused
        self.limits = limits or Limits()
        self.connections: set[Connection] = set()
        self.buffered = 0
        self.date = b""
        self.arriving = memoryview(bytearray(_ARRIVING))
        """What a connection has just received. One for all: a new one for each read costs 15 µs of page faults."""
        self.closing = False
        self._server: asyncio.AbstractServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stops = Stops(_SWEEP_S)

    async def start(self, host: str, port: int) -> int:
        """Listen; gives the port, which matters where 0 was asked for.

        Raises:
            OSError: the port is taken, or not allowed.
        """
        self._loop = asyncio.get_running_loop()
        self._server = await self._loop.create_server(lambda: Connection(self), host, port, backlog=1024)
        self._stops.begin(time.monotonic())
        self._sweep()
        return self._server.sockets[0].getsockname()[1]

    def stop_accepting(self) -> None:
        """Take no new connection, and let go of those on which nothing is asked."""
        self.closing = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close_if_idle()

    def close(self) -> None:
        """Cut everything."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.cut()

    def _sweep(self) -> None:
        # One timer for all: each connection says until when it may stay as it is.
        assert self._loop is not None
        self.date = f"date: {formatdate(usegmt=True)}\r\n".encode()
        now = time.monotonic()
        stopped = self._stops.look(now)
        for connection in list(self.connections):
            if stopped:
                connection.forgive(stopped)
            if now > connection.due:
                connection.overdue()
        if not self.closing or self.connections:
            self._loop.call_later(_SWEEP_S, self._sweep)
