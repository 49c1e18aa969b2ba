"""The HTTP/1.1 server: one event loop, no threads, no user code.

GPUproof has its own server because an image needs only Python for it, and because it is faster. Measured with 64
connections and bodies of 7.7 kB on two shared cores: 92,000 requests per second, compared with 34,000 for Granian,
29,000 for uvicorn with httptools and 8,400 for uvicorn in pure Python. The same application also runs on any ASGI
server (`asgi`).
"""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from typing import Callable

from gpuproof.serve.http.connection import Connection
from gpuproof.serve.http.listener import Listener
from gpuproof.serve.http.state import Application, Limits, OnRejected, ServerState
from gpuproof.serve.ipc.shared_memory import BodyMemory
from gpuproof.util.suspend_detector import SuspendDetector

_SWEEP_S = 0.25
_CLOSE_AT_ONCE = 64


class HttpServer:
    """Listens on a port and owns all connections.

    Args:
        limits: timeouts and memory limit.
        on_rejected: called for each request that is rejected before it is complete.
        memory: where large bodies are received, if the workers share it.
        capacity: number of connections with full service; by default, as many as the limit on open files permits.
    """

    def __init__(
        self,
        application: Application,
        limits: Limits | None = None,
        on_rejected: OnRejected = lambda _head, _status: None,
        memory: BodyMemory | None = None,
        log: Callable[[str], None] = lambda _text: None,
        capacity: int | None = None,
    ) -> None:
        self.connections: set[Connection] = set()
        self._state = ServerState(application, limits or Limits(), on_rejected, memory)
        self._listener = Listener(self, log, capacity)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._suspensions = SuspendDetector(_SWEEP_S)

    @property
    def buffered(self) -> int:
        """Bytes of all incomplete bodies."""
        return self._state.buffered

    async def start(self, host: str, port: int) -> int:
        """Start listening and return the port, which is chosen by the system if 0 is given.

        Args:
            host: an address, or the absolute path of a Unix socket, which has no port (0 is returned).

        Raises:
            OSError: the port is in use, or not permitted.
        """
        self._loop = asyncio.get_running_loop()
        bound = await self._listener.start(host, port)
        self._suspensions.start(time.monotonic())
        self._sweep()
        return bound

    @property
    def idle(self) -> bool:
        """Whether no connection is open."""
        return not self.connections and not self._listener.pending

    def stop_accepting(self) -> None:
        """Stop listening, and close each connection after its next response, or when no further request comes."""
        self._state.closing = True
        self._listener.close()
        for connection in list(self.connections):
            connection.close_soon()

    def close(self) -> None:
        """Stop listening and abort all connections."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.abort()

    def __len__(self) -> int:
        return len(self.connections)

    def create(self, *, restricted: bool) -> Connection:
        """A new connection; a restricted one only answers `/ping`."""
        return Connection(self._state, self.connections.add, self.connections.discard, restricted=restricted)

    def close_some(self) -> None:
        """Close connections that have no request in progress."""
        for connection in list(self.connections)[:_CLOSE_AT_ONCE]:
            connection.close_if_idle()

    def _sweep(self) -> None:
        # One timer for all connections: each knows the deadline of its present state.
        assert self._loop is not None
        self._state.date = f"date: {formatdate(usegmt=True)}\r\n".encode()
        now = time.monotonic()
        suspended = self._suspensions.check(now)
        for connection in list(self.connections):
            if suspended:
                connection.extend_deadlines(suspended)
            if now > connection.deadline:
                connection.on_deadline()
        if not self._state.closing or not self.idle:
            self._loop.call_later(_SWEEP_S, self._sweep)
