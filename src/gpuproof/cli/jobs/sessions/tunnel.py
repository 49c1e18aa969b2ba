"""Keeps a local port connected to a port of an instance, through AWS Systems Manager."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from gpuproof.errors import GPUproofError

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_STEADY_S = 30.0
"""How long a tunnel has to have worked for its end to be a dropped connection, not a failure."""
_OPEN_LIMIT_S = 60.0
_GRACE_S = 5.0
_STEP_S = 0.1


class Tunnel:
    """A tunnel that is opened again when it ends: Systems Manager ends sessions that are idle for 20 minutes, and networks fail.

    Use it in a `with` statement.

    Args:
        command: the command that forwards a local port and runs as long as the tunnel is open.
        notify: called with a sentence when the tunnel is opened again, or cannot be.
    """

    def __init__(self, command: Sequence[str], port: int, notify: Callable[[str], None]) -> None:
        self._command = command
        self._port = port
        self._notify = notify
        self._closed = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_open, name="tunnel", daemon=True)

    def __enter__(self) -> Tunnel:
        """Open it.

        Raises:
            GPUproofError: it cannot be opened.
        """
        self._process = self._start()
        try:
            self._wait_until_open(self._process)
        except BaseException:
            self._stop()
            raise
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self._closed.set()
        self._stop()
        if self._thread.is_alive():
            self._thread.join()

    def _keep_open(self) -> None:
        pause, opened = _FIRST_PAUSE_S, time.monotonic()
        while not self._closed.wait(_STEP_S):
            process = self._process
            if process is not None and process.poll() is None:
                continue
            self._stop()  # what it has left behind
            if time.monotonic() - opened > _STEADY_S:
                pause = _FIRST_PAUSE_S
            if self._closed.wait(pause):
                return
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            opened = time.monotonic()
            try:
                self._process = self._start()
                if self._closed.is_set():
                    self._stop()
                    return
                self._wait_until_open(self._process)
            except GPUproofError as error:
                self._notify(f"the tunnel was interrupted: {error.message}")
            else:
                self._notify("the tunnel was interrupted and is open again")

    def _start(self) -> subprocess.Popen[bytes]:
        # In a session of its own: Ctrl-C in the terminal is for this program, which closes the tunnel.
        return subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _wait_until_open(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _OPEN_LIMIT_S
        while not self._closed.is_set():
            if process.poll() is not None:
                self._stop()  # its plugin would keep the pipe open
                assert process.stderr is not None
                text = process.stderr.read().decode(errors="replace").strip()
                why = text.splitlines()[-1] if text else f"aws ended with status {process.returncode}"
                raise GPUproofError(f"The tunnel to the instance could not be opened: {why}")
            if _accepts(self._port):
                return
            if time.monotonic() > until:
                self._stop()
                raise GPUproofError(f"The tunnel to the instance did not open within {_OPEN_LIMIT_S:.0f} s.")
            self._closed.wait(_STEP_S)

    def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        # The group: the AWS CLI does not end its plugin, which holds the port.
        _signal_group(process.pid, signal.SIGTERM)
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            _signal_group(process.pid, signal.SIGKILL)
            process.wait()


def _signal_group(leader: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)


def local_port(wanted: int) -> int:
    """A free port of this machine's loopback interface: the wanted one if possible."""
    for port in (wanted, 0):
        with socket.socket() as found:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return found.getsockname()[1]
    raise GPUproofError("No port of 127.0.0.1 is free.")


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2.0).close()
    except OSError:
        return False
    return True
