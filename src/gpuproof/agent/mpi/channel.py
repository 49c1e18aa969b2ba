"""Authenticated connections between two hosts of a job: JSON on lines, each with a code that only holders of the job's key can compute.

Both ends send a random number first; the codes depend on both numbers, on the direction and on the line's position. So nothing
that a third party records, changes or repeats is accepted.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import socket
from typing import Any

_LONGEST_LINE = 1 << 20
_HANDSHAKE = 10.0
_TO_SERVER, _TO_CLIENT = b"client", b"server"


class NotAuthenticated(Exception):
    """The other end does not have the job's key."""


class Channel:
    """One end of a connection."""

    def __init__(self, connection: socket.socket, stream: _Lines, key: bytes, sends: bytes) -> None:
        self._connection = connection
        self._stream = stream
        self._key = key
        self._sends = sends
        self._receives = _TO_CLIENT if sends == _TO_SERVER else _TO_SERVER
        self._sent = self._received = 0

    @classmethod
    def connect(cls, address: tuple[str, int], key: bytes, timeout: float = _HANDSHAKE) -> Channel:
        """Connect to another host. Whether that has the key is known when its first message arrives.

        Raises:
            OSError: it cannot be reached, or does not answer in time.
            NotAuthenticated: it is not a host of this kind of job.
        """
        connection = socket.create_connection(address, timeout)
        try:
            return cls._open(connection, key, _TO_SERVER)
        except BaseException:
            connection.close()
            raise

    @classmethod
    def accept(cls, connection: socket.socket, key: bytes) -> Channel:
        """Take over a connection that was accepted. Whether the client has the key is known when its first message arrives.

        Raises:
            OSError: the client does not answer in time.
            NotAuthenticated: it does not speak this protocol.
        """
        connection.settimeout(_HANDSHAKE)
        return cls._open(connection, key, _TO_CLIENT)

    @classmethod
    def _open(cls, connection: socket.socket, key: bytes, sends: bytes) -> Channel:
        if not key:
            raise NotAuthenticated("the job has no key")
        _detect_dead_peers(connection)
        stream = _Lines(connection)
        own = secrets.token_hex(16).encode()
        connection.sendall(own + b"\n")
        other = stream.read()
        if other is None or len(other) != len(own):
            raise NotAuthenticated("the other end does not speak the agent's protocol")
        numbers = (own, other) if sends == _TO_SERVER else (other, own)
        return cls(connection, stream, hmac.digest(key, b" ".join(numbers), hashlib.sha256), sends)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message.

        Raises:
            OSError: the connection is broken.
        """
        body = json.dumps(message).encode()
        code = self._code(self._sends, self._sent, body)
        self._sent += 1
        self._connection.sendall(b"%b %b\n" % (code, body))

    def receive(self, timeout: float | None = None) -> dict[str, Any] | None:
        """Wait for a message; `None` if the other end has closed the connection.

        Args:
            timeout: seconds; `None` waits for ever.

        Raises:
            OSError: the connection is broken, or no message arrived in time (`TimeoutError`).
            NotAuthenticated: the message is not from a holder of the key.
        """
        self._connection.settimeout(timeout)
        try:
            line = self._stream.read()
        finally:
            self._connection.settimeout(None)
        if line is None:
            return None
        code, _, body = line.partition(b" ")
        if not hmac.compare_digest(code, self._code(self._receives, self._received, body)):
            raise NotAuthenticated("the other end does not have the job's key")
        self._received += 1
        return json.loads(body)

    def close(self) -> None:
        """Close the connection; a thread that waits for a message receives `None`."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other end was faster
        self._connection.close()

    def _code(self, direction: bytes, position: int, body: bytes) -> bytes:
        text = b"%b %d %b" % (direction, position, body)
        return hmac.new(self._key, text, hashlib.sha256).hexdigest().encode()


class _Lines:
    """Reads lines from a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def read(self) -> bytes | None:
        """The next line; `None` at the end, or if it is too long."""
        while b"\n" not in self._rest:
            received = self._connection.recv(65536)
            if not received or len(self._rest) > _LONGEST_LINE:
                return None
            self._rest += received
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def _detect_dead_peers(connection: socket.socket) -> None:
    """Have the kernel break the connection within half a minute of the other host's disappearance."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", 30_000),
    ):
        if hasattr(socket, name):  # Linux
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
