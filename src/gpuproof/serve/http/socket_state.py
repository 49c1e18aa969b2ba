"""What the kernel knows about a connection."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios


def has_failed(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer has reset the connection. asyncio does not notice while it neither reads nor writes."""
    return bool(transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))


def unread(transport: asyncio.BaseTransport) -> int:
    """Bytes that have arrived and were not read yet; 0 if the system does not report it."""
    return _ioctl(transport, termios.FIONREAD)


def unacknowledged(transport: asyncio.BaseTransport) -> int:
    """Bytes that were sent and not acknowledged yet; 0 if the system does not report it.

    A kernel keeps megabytes for a client, and accepts no more until a third of them has been acknowledged.
    """
    return _ioctl(transport, termios.TIOCOUTQ)


def _ioctl(transport: asyncio.BaseTransport, request: int) -> int:
    try:
        found = fcntl.ioctl(transport.get_extra_info("socket").fileno(), request, bytes(4))
    except OSError:  # not supported for sockets by this system, or closed
        return 0
    return int.from_bytes(found, sys.byteorder)
