"""Ports for servers that need a port number before they start."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_240


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return the given number of different free ports.

    They are below the system's ephemeral ports: no connection and no server at port 0 takes one before
    the server has started.
    """
    found: list[int] = []
    for port in random.sample(range(_LOWEST, _first_ephemeral()), 1000):
        if len(found) < count and _is_free(port):
            found.append(port)
    assert len(found) == count, "there are no free ports"
    return found


def _first_ephemeral() -> int:
    try:
        return max(int(_EPHEMERAL.read_text().split()[0]), _LOWEST + 1000)
    except OSError:
        return 32_768


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
