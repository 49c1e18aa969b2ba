"""One connection between agents: messages in, messages out, never blocking."""

from __future__ import annotations

import socket

from gpuproof.agent.cluster.messages import LineBuffer, Message, encode

_CHUNK = 64 * 1024
_UNSENT_BYTES = 1 << 20
"""Bytes that may wait for a peer that does not read; a connection with more counts as lost."""


class ConnectionLost(Exception):
    """The peer has closed the connection, or does not read; the message is the reason."""


class Connection:
    """A connected socket that sends and receives messages without waiting.

    Args:
        lines: receives the bytes.
    """

    def __init__(self, channel: socket.socket, lines: LineBuffer) -> None:
        channel.setblocking(False)
        channel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._channel = channel
        self.lines = lines
        self._unsent = b""

    def fileno(self) -> int:
        """File descriptor to wait for."""
        return self._channel.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether some bytes could not be sent yet."""
        return bool(self._unsent)

    def send(self, message: Message) -> None:
        """Send a message as far as possible now; `flush` sends the rest.

        Raises:
            ConnectionLost: the peer is gone.
        """
        self._unsent += encode(message)
        if len(self._unsent) > _UNSENT_BYTES:
            raise ConnectionLost("it does not read what it is sent")
        self.flush()

    def flush(self) -> None:
        """Send as much as possible of what could not be sent before.

        Raises:
            ConnectionLost: the peer is gone.
        """
        try:
            while self._unsent:
                self._unsent = self._unsent[self._channel.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise ConnectionLost(error.strerror or str(error)) from error

    def receive(self) -> list[Message]:
        """Return the messages that have arrived.

        Raises:
            ConnectionLost: the peer is gone.
            ProtocolError: it sends something other than messages.
        """
        try:
            received = self._channel.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ConnectionLost(error.strerror or str(error)) from error
        if not received:
            raise ConnectionLost("its agent ended")
        return self.lines.feed(received)

    def close(self) -> None:
        """Close the connection."""
        self._channel.close()
