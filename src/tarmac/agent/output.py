"""The script's output on its way into the run's log: every byte, in order, whatever it is."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ: fcntl names it from Python 3.10 on
_TAIL_BYTES = 64 * 1024
_SMALL_READ = 64 * 1024
_GATHER_SECONDS = 0.005


class OutputLog(threading.Thread):
    """Copies from a pipe into a file until the pipe's last writer is gone.

    A full disk cuts the log, never the script: what comes after is read and counted, not kept.

    Args:
        readable: the pipe's end to read from; closed at the end.
        path: the file to append to.
    """

    def __init__(self, readable: int, path: Path) -> None:
        super().__init__(name="output", daemon=True)
        self._readable = readable
        self._path = path
        self._tail = b""
        self.lost_bytes = 0
        """Bytes that could not be written."""
        self.lost_reason = ""
        """Why they were lost, in the system's words."""

    def run(self) -> None:
        _enlarge(self._readable)
        log = self._open()
        previous = 0.0
        while True:
            chunk = os.read(self._readable, _PIPE_BYTES)
            if not chunk:
                break
            if log is None:
                log = self._open()
            self._keep(log, chunk)
            now = time.monotonic()
            if len(chunk) < _SMALL_READ and now - previous < _GATHER_SECONDS:
                # A script that prints without pause: let some lines gather, or each wakes us.
                time.sleep(_GATHER_SECONDS)
            previous = now
        if log is not None:
            os.close(log)
        os.close(self._readable)

    def tail(self) -> str:
        """The end of the output, some 64 KiB of it, undecodable bytes replaced."""
        return self._tail.decode("utf-8", errors="replace")

    def _open(self) -> int | None:
        try:
            return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            self.lost_reason = error.strerror or str(error)
            return None

    def _keep(self, log: int | None, chunk: bytes) -> None:
        self._tail = (
            chunk[-_TAIL_BYTES:] if len(chunk) >= _TAIL_BYTES else (self._tail + chunk)[-_TAIL_BYTES:]
        )
        if log is None:
            self.lost_bytes += len(chunk)
            return
        rest = memoryview(chunk)
        while rest:
            try:
                rest = rest[os.write(log, rest) :]
            except OSError as error:  # noqa: PERF203 - a write that fails is rare, and ends the loop
                # Whatever it is: a pipe that nobody reads would stop the script.
                self.lost_bytes += len(rest)
                self.lost_reason = error.strerror or str(error)
                return


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _PIPE_BYTES)
    except OSError:
        # macOS, or a host that grants less: the usual 64 KiB do.
        return
