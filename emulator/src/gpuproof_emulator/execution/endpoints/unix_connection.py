"""HTTP over a Unix socket: only the user of the emulator can reach a model's container."""

from __future__ import annotations

import http.client
import os
import socket
from pathlib import Path


class UnixConnection(http.client.HTTPConnection):
    """A connection to a server that listens on a Unix socket.

    Args:
        path: of the socket; it may be longer than the 107 bytes of an address.
        timeout: seconds.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket.

        Raises:
            ConnectionRefusedError: no server listens on it.
        """
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                self.sock.connect(f"/proc/self/fd/{folder}/{self._path.name}")
            finally:
                os.close(folder)
        except FileNotFoundError as error:
            raise ConnectionRefusedError(str(error)) from error
