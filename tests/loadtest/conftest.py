"""A server of raw sockets with configurable faults."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest


@dataclass
class Server:
    """What a test sees of it: its port, and the connections and requests that came."""

    port: int
    requests: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0


Behaviour = Callable[[socket.socket, int], bool]
"""Given the connection and the number of the request from 0; False closes the connection."""


@pytest.fixture
def server() -> Callable[..., object]:
    return _serving


@contextmanager
def _serving(behave: Behaviour, tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    state = Server(listening.getsockname()[1])
    lock = threading.Lock()
    open_connections: list[socket.socket] = []

    def serve(connection: socket.socket) -> None:
        pending = b""
        try:
            if tls is not None:
                connection = tls.wrap_socket(connection, server_side=True)
            while True:
                while b"\r\n\r\n" not in pending:
                    data = connection.recv(65536)
                    if not data:
                        return
                    pending += data
                head, _, pending = pending.partition(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.lower().startswith(b"content-length:")
                    ),
                    0,
                )
                while len(pending) < length:
                    pending += connection.recv(65536)
                with lock:
                    number = len(state.requests)
                    state.requests.append(head + b"\r\n\r\n" + pending[:length])
                pending = pending[length:]
                if not behave(connection, number):
                    return
        except OSError:
            return
        finally:
            connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            state.connections += 1
            open_connections.append(connection)
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield state
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for connection in open_connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        accepting.join(300)
