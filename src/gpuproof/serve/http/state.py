"""Limits, callbacks and buffers that an HTTP server shares with its connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Optional, Protocol

from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.http.parser import Head
from gpuproof.serve.ipc.messages import Headers
from gpuproof.serve.ipc.shared_memory import BodyMemory

_RECEIVE_BUFFER = 256 * 1024

OnRejected = Callable[[Optional[Head], int], None]
"""Called for each request that is rejected before it is complete, with its head if that was parsed, and the status."""


class Application(Protocol):
    """Handles the requests of an HTTP server."""

    def admit(self, head: Head) -> tuple[int, str, Headers] | int:
        """Check a request before its body is read.

        Returns the maximum body size in bytes, or the status, message and headers of a rejection.
        """
        ...

    def handle(self, exchange: Exchange) -> None:
        """Respond to a request, immediately or later."""
        ...


@dataclass(frozen=True)
class Limits:
    """Timeouts in seconds, and the memory limit in bytes, of an HTTP server."""

    head_s: float = 10
    """From the first to the last byte of a request's head."""
    idle_s: float = 75
    """Between two requests on a connection."""
    stall_s: float = 10
    """Without a received byte of a body, or without the client reading a byte of its response."""
    body_s: float = 60
    """From the head to the last byte of the body."""
    linger_s: float = 2
    """For which a connection stays open after a rejection, so that a client that is still sending reads the reason."""
    closing_s: float = 1
    """For which an idle connection stays open when the server stops, for a request that is on its way."""
    probe_s: float = 0.5
    """After which a client that has closed its half of the connection is probed: it may have closed all of it."""
    buffered: int = 1 << 30
    """Incomplete bodies of all connections together."""


@dataclass
class ServerState:
    """State shared by all connections of one server."""

    application: Application
    limits: Limits
    on_rejected: OnRejected
    memory: BodyMemory | None = None
    """Where large bodies are received, if the workers share it."""
    buffered: int = 0
    """Bytes of all incomplete bodies."""
    date: bytes = b""
    """The line of the `Date` header."""
    closing: bool = False
    receive_buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(_RECEIVE_BUFFER)))
    """Receives the bytes of every connection: a new buffer for each read costs 15 µs of page faults."""
