"""Forwards connections: from a port on loopback to the Unix socket of a machine, and there from the socket to Jupyter's port.

Jupyter itself asks for its token, so that the port, which other users can reach, leads nowhere without it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Generator
from pathlib import Path

_CHUNK = 1 << 16
_CONNECT_S = 10.0


class Relay:
    """Accepts connections on a listening socket and forwards each.

    Args:
        listener: it must be listening; closed by `close`.
        connect: opens the connection that one is forwarded to.
    """

    def __init__(self, listener: socket.socket, connect: Callable[[], socket.socket]) -> None:
        self._listener = listener
        self._connect = connect
        threading.Thread(target=self._accept, name="notebook relay", daemon=True).start()

    def close(self) -> None:
        """Accept no further connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(connection,), daemon=True).start()

    def _forward(self, connection: socket.socket) -> None:
        try:
            other = self._connect()
        except OSError:
            connection.close()
            return
        back = threading.Thread(target=_copy, args=(other, connection), daemon=True)
        back.start()
        _copy(connection, other)
        back.join()
        connection.close()
        other.close()


def connect_tcp(port: int) -> socket.socket:
    """A connection to a port on loopback."""
    return socket.create_connection(("127.0.0.1", port), _CONNECT_S)


def connect_unix(path: Path) -> socket.socket:
    """A connection to a Unix socket, whose path may be longer than the 107 bytes of an address."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        with _short_path(path) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def listen_tcp() -> socket.socket:
    """A listening socket on a free port of loopback."""
    return socket.create_server(("127.0.0.1", 0))


def listen_unix(path: Path) -> socket.socket:
    """A Unix socket that listens; an older one of that path is replaced."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    with _short_path(path) as address:
        listener.bind(address)
    listener.listen()
    return listener


@contextlib.contextmanager
def _short_path(path: Path) -> Generator[str]:
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def _copy(source: socket.socket, destination: socket.socket) -> None:
    with contextlib.suppress(OSError):
        source.settimeout(None)
        while part := source.recv(_CHUNK):
            destination.sendall(part)
    with contextlib.suppress(OSError):
        destination.shutdown(socket.SHUT_WR)
