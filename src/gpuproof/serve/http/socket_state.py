"""What the kernel knows about a connection."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
import time


class Probe:
    """Schedules probes of a connection; the interval doubles.

    Args:
        interval_s: time before the first probe, in seconds.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval = interval_s
        self._at = time.monotonic() + interval_s

    def is_due(self) -> bool:
        """Whether it is time for a probe; if so, schedules the next one."""
        now = time.monotonic()
        if now < self._at:
            return False
        self._interval *= 2
        self._at = now + self._interval
        return True


def has_failed(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer has reset the connection. asyncio does not notice while it neither reads nor writes."""
    return bool(transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def unread(transport: asyncio.BaseTransport | None) -> int:
    """Bytes that have arrived and were not read yet; 0 if the system does not report it, or without a connection."""
    return _ioctl(transport, termios.FIONREAD)


def unacknowledged(transport: asyncio.BaseTransport | None) -> int:
    """Bytes that were sent and not acknowledged yet; 0 as for `unread`.

    A kernel keeps megabytes for a client, and accepts no more until a third of them has been acknowledged.
    """
    return _ioctl(transport, termios.TIOCOUTQ)


def _ioctl(transport: asyncio.BaseTransport | None, request: int) -> int:
    if transport is None:
        return 0
    try:
        found = fcntl.ioctl(transport.get_extra_info("socket").fileno(), request, bytes(4))
    except (OSError, ValueError):  # not supported for sockets by this system, or closed
        return 0
    return int.from_bytes(found, sys.byteorder)
