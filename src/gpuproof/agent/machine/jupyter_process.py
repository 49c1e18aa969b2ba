"""Runs a Jupyter server and keeps its token out of its output."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

from gpuproof.agent.idle.jupyter_activity import JupyterServer
from gpuproof.agent.machine.files import VERSION, MachineFiles
from gpuproof.agent.machine.server_command import server_command, server_environment

PORT = 8888
_GRACE_S = 15.0


class JupyterMissing(Exception):
    """The interpreter has no Jupyter server."""


class JupyterProcess:
    """A Jupyter server on the loopback interface.

    Args:
        packages: the folder that it was installed into, if that is not the interpreter's own.

    Raises:
        JupyterMissing: the interpreter has none.
        OSError: it cannot be started.
    """

    def __init__(self, work: Path, packages: Path | None) -> None:
        self._work, self._packages = work, packages
        self._token = secrets.token_urlsafe(32)
        self._start(free_port(PORT))

    def _start(self, port: int) -> None:
        command = server_command(self._work, port)
        if command is None:
            raise JupyterMissing(f"{sys.executable} has no Jupyter server")
        self._port = port
        self.server = JupyterServer(f"http://127.0.0.1:{port}/", self._token)
        """Where it listens."""
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._work,
            env={**os.environ, **server_environment(self._packages, self._token)},
        )
        assert self._process.stdout is not None
        arguments = (self._process.stdout, sys.stdout.buffer, self._token.encode())
        self._reader = threading.Thread(target=_copy_without, args=arguments, name="jupyter", daemon=True)
        self._reader.start()

    def start_on_another_port(self) -> bool:
        """Start it again if it has ended because another program took its port while it started.

        Returns:
            Whether it was started.
        """
        if self.poll() is None or _is_free(self._port):
            return False
        self._reader.join(1.0)
        self._start(free_port(0))
        return True

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def write_access(self, files: MachineFiles) -> None:
        """Write how to reach it, for this user only.

        Raises:
            OSError: the file cannot be written.
        """
        document = {"version": VERSION, "port": self._port, "token": self.server.token}
        partial = files.server.with_suffix(".partial")
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(document, file)
        partial.replace(files.server)

    def stop(self) -> None:
        """End it and its kernels."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._reader.join(1.0)


def free_port(wanted: int) -> int:
    """A port of the loopback interface that is free: the wanted one if possible."""
    if wanted and _is_free(wanted):
        return wanted
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _is_free(port: int) -> bool:
    with socket.socket() as found:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            found.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _copy_without(source: IO[bytes], sink: IO[bytes], secret: bytes) -> None:
    """Copy lines, with a secret replaced; the server prints its address with the token."""
    for line in source:
        sink.write(line.replace(secret, b"[hidden]"))
        sink.flush()
