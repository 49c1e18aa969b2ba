"""Copies the script's output into the run's log or to standard output: every byte, in order."""

from __future__ import annotations

import fcntl
import os
import select
import threading
import time
from pathlib import Path
from typing import Callable

_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ: fcntl names it from Python 3.10 on
_TAIL_BYTES = 64 * 1024
_SMALL_READ = 64 * 1024
_GATHER_SECONDS = 0.005
TIMES_INTERVAL_S = 1.0
"""Seconds between two notes of a log's length."""


class Sink:
    """A file for output that must never stop its writer: bytes that cannot be written are counted, not raised.

    Args:
        opened: returns the file descriptor to write to; called again as long as it fails.
    """

    def __init__(self, opened: Callable[[], int]) -> None:
        self._opened = opened
        self._descriptor: int | None = None
        self.lost_bytes = 0
        """Bytes that could not be written."""
        self.lost_reason = ""
        """Why they were lost: the system's error message."""
        self.ends_line = True
        """Whether the next write begins a line."""

    def open(self) -> None:
        """Open it now rather than with the first write."""
        if self._descriptor is not None:
            return
        try:
            self._descriptor = self._opened()
        except OSError as error:
            self.lost_reason = error.strerror or str(error)

    def write(self, data: bytes) -> int:
        """Write all of it, or as much as possible."""
        self.open()
        self.ends_line = data.endswith(b"\n") if data else self.ends_line
        rest = memoryview(data)
        while rest:
            if self._descriptor is None:
                self.lost_bytes += len(rest)
                break
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:
                # Some process made it non-blocking, and its reader is slow.
                select.select([], [self._descriptor], [])
            except OSError as error:
                # Any error: an unread pipe would block the script.
                self.lost_bytes += len(rest)
                self.lost_reason = error.strerror or str(error)
                break
        return len(data)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def close(self) -> None:
        """Close the file; a later write opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class TimedSink(Sink):
    """A sink that notes, at most once a second, when the output had which length, for `gpuproof logs --since`.

    Args:
        times: the file for the notes; each line is a time in seconds since the epoch and a number of bytes. An error of
            writing it is ignored.
    """

    def __init__(self, log: Path, times: Path) -> None:
        super().__init__(appending_to(log))
        self._log = log
        self._times = Sink(appending_to(times))
        self._length: int | None = None
        self._next = 0.0

    def write(self, data: bytes) -> int:
        """Write all of it, or as much as possible."""
        if self._length is None:
            try:
                self._length = self._log.stat().st_size
            except OSError:
                self._length = 0
        now = time.monotonic()
        if now >= self._next:
            self._next = now + TIMES_INTERVAL_S
            self._times.write(b"%.1f %d\n" % (time.time(), self._length))
        lost = self.lost_bytes
        written = super().write(data)
        self._length += written - (self.lost_bytes - lost)
        return written

    def close(self) -> None:
        """Close both files."""
        super().close()
        self._times.close()


def appending_to(path: Path) -> Callable[[], int]:
    """Return a function that opens a file for appending, for `Sink`."""
    return lambda: os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)


class OutputLog(threading.Thread):
    """Copies from a pipe into a sink until the pipe's last writer has closed it.

    A full disk truncates the log but never blocks the script: later output is read and counted, not kept.

    Args:
        sink: receives the bytes; closed at the end too.
        on_output: called whenever there were some.
    """

    def __init__(self, readable: int, sink: Sink, on_output: Callable[[], None] | None = None) -> None:
        super().__init__(name="output", daemon=True)
        self._readable = readable
        self._sink = sink
        self._on_output = on_output
        self._tail = b""

    def run(self) -> None:
        _enlarge(self._readable)
        self._sink.open()
        previous = 0.0
        while True:
            chunk = os.read(self._readable, _PIPE_BYTES)
            if not chunk:
                break
            self._keep(chunk)
            now = time.monotonic()
            if len(chunk) < _SMALL_READ and now - previous < _GATHER_SECONDS:
                # The script prints continuously: let some lines gather, or each one wakes this thread.
                time.sleep(_GATHER_SECONDS)
            previous = now
        self._sink.close()
        os.close(self._readable)

    def tail(self) -> str:
        """The last 64 KiB of the output, undecodable bytes replaced."""
        return self._tail.decode("utf-8", errors="replace")

    def _keep(self, chunk: bytes) -> None:
        self._tail = (
            chunk[-_TAIL_BYTES:] if len(chunk) >= _TAIL_BYTES else (self._tail + chunk)[-_TAIL_BYTES:]
        )
        self._sink.write(chunk)
        if self._on_output is not None:
            self._on_output()


def _enlarge(pipe: int) -> None:
    try:
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _PIPE_BYTES)
    except OSError:
        # macOS, or a host with a lower limit: the default of 64 KiB is enough.
        return
