"""Accepts connections; keeps the server reachable when too many are open.

asyncio's own accept loop logs a traceback per connection of the backlog when file descriptors run out, and `/ping` gets no
response. Here some descriptors are reserved: beyond the limit, a connection can only ask for `/ping`, and the oldest of
those makes room for the next one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import time
from collections import deque
from pathlib import Path
from typing import Callable, Protocol

from gpuproof.serve.http.connection import Connection

_BACKLOG = 1024
_AT_ONCE = 64
_PAUSE_S = 0.1
_RESERVED = 128
"""Descriptors for workers, logs and files; a quarter of the limit if that is less."""
_SPARE = 16
"""Connections beyond the limit, for `/ping`."""
_LOG_INTERVAL_S = 60
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""Without IPv6, `localhost` may still have an IPv6 address."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Clients(Protocol):
    """Creates the protocols of connections, and knows the open ones."""

    def __len__(self) -> int:
        """The number of open connections."""
        ...

    def create(self, *, restricted: bool) -> Connection:
        """A new protocol; a restricted one only answers `/ping`."""
        ...

    def close_some(self) -> None:
        """Close connections that have no request in progress, because descriptors have run out."""
        ...


class Listener:
    """The listening sockets of a server.

    Args:
        capacity: number of connections with full service; by default, as many as the limit on open files permits.
    """

    def __init__(self, clients: Clients, log: Callable[[str], None], capacity: int | None = None) -> None:
        self._clients = clients
        self._log = log
        self._capacity = capacity
        self._sockets: list[socket.socket] = []
        self._spare: deque[Connection] = deque()
        self._tasks: set[asyncio.Task[object]] = set()
        self._logged_at = float("-inf")

    @property
    def pending(self) -> int:
        """Number of connections that were accepted and have no protocol yet."""
        return len(self._tasks)

    async def start(self, host: str, port: int) -> int:
        """Start listening and return the port, which is chosen by the system if 0 is given. Raises OSError.

        Args:
            host: an address, or the absolute path of a Unix socket, which has no port (0 is returned).
        """
        loop = asyncio.get_running_loop()
        try:
            if host.startswith("/"):
                self._sockets.append(_listen_on_path(host))
            else:
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
                self._sockets += _listen_on_all(list(dict.fromkeys(found)))
        except OSError:
            self.close()
            raise
        if self._capacity is None:
            self._capacity = _capacity()
        for listening in self._sockets:
            loop.add_reader(listening, self._accept, listening)
        return 0 if host.startswith("/") else self._sockets[0].getsockname()[1]

    def close(self) -> None:
        """Accept the connections that clients have already opened, and stop listening."""
        sockets, self._sockets = self._sockets, []
        for listening in sockets:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().remove_reader(listening)
                # Closing the socket would reset them, perhaps with a request.
                while self._accept_one(listening):
                    pass
            listening.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if not self._accept_one(listening):
                return

    def _accept_one(self, listening: socket.socket) -> bool:
        """Accept a connection. Returns whether there may be more."""
        try:
            connection, _ = listening.accept()
        except BlockingIOError:
            return False
        except (InterruptedError, ConnectionAbortedError):
            return True
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            self._on_exhausted(listening, error)
            return False
        loop = asyncio.get_running_loop()
        protocol = self._protocol()
        task = loop.create_task(loop.connect_accepted_socket(lambda: protocol, connection))
        self._tasks.add(task)
        task.add_done_callback(self._on_connected)
        return True

    def _protocol(self) -> Connection:
        assert self._capacity is not None
        if len(self._clients) + self.pending < self._capacity:
            return self._clients.create(restricted=False)
        self._log_rarely(
            f"all {self._capacity} connections are in use; further ones are refused. The limit follows from `ulimit -n`."
        )
        protocol = self._clients.create(restricted=True)
        self._spare.append(protocol)
        if len(self._spare) > _SPARE:
            self._spare.popleft().abort()
        return protocol

    def _on_connected(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError):
            # An OSError means that the client has disconnected meanwhile.
            raise error

    def _on_exhausted(self, listening: socket.socket, error: OSError) -> None:
        """Free descriptors, and try again after a pause: the socket stays readable."""
        self._log_rarely(f"connections cannot be accepted: {error.strerror}; idle ones are closed")
        while self._spare:
            self._spare.popleft().abort()
        self._clients.close_some()
        if listening in self._sockets:
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(_PAUSE_S, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _log_rarely(self, text: str) -> None:
        now = time.monotonic()
        if now - self._logged_at >= _LOG_INTERVAL_S:
            self._logged_at = now
            self._log(text)


def _listen_on_path(path: str) -> socket.socket:
    if Path(path).is_socket():
        # A server that was killed has left it.
        Path(path).unlink()
    return _listen(socket.AF_UNIX, socket.SOCK_STREAM, 0, path)


def _listen_on_all(addresses: list[tuple[int, int, int, str, tuple[object, ...]]]) -> list[socket.socket]:
    """Listen on the addresses of a host; those that this machine lacks are skipped if there are others."""
    found: list[socket.socket] = []
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        try:
            found.append(_listen(family, kind, protocol, address))
        except OSError as error:  # noqa: PERF203 - two addresses at most
            if error.errno in _NO_SUCH_ADDRESS and (found or number < len(addresses)):
                continue
            for listening in found:
                listening.close()
            raise
    return found


def _listen(family: int, kind: int, protocol: int, address: tuple[object, ...] | str) -> socket.socket:
    listening = socket.socket(family, kind, protocol)
    try:
        if family != socket.AF_UNIX:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # As asyncio: another socket listens on the IPv4 address of the same name.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
        listening.setblocking(False)
    except BaseException:
        listening.close()
        raise
    return listening


def _capacity() -> int:
    """How many connections the limit on open files permits, beside what is open now and what is reserved."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 1 << 20
    try:
        used = sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        used = 32
    return max(limit - used - min(_RESERVED, limit // 4) - _SPARE, 4)
