"""When a command is ended, or warned about: no GPU did any work, or nothing makes progress."""

from __future__ import annotations

import os
import time
from typing import Callable, NamedTuple

from gpuproof.agent.stall.progress import Progress
from gpuproof.gpu.telemetry import Sample
from gpuproof.util.humanize import format_duration
from gpuproof.watch.report import STALLED, STOPPED_UNUSED
from gpuproof.watch.settings import STOP, WatchSettings

STOP_GRACE_S = 30.0
"""Seconds between SIGTERM and SIGKILL: as Kubernetes gives a container."""


class Event(NamedTuple):
    """What is due.

    Attributes:
        text: for people.
        stop: why the command is ended, as in a report; empty if it is only a warning.
    """

    text: str
    stop: str = ""


class Limits:
    """The limits of a command; they apply from `begin` on.

    Args:
        clock: monotonic clock, in seconds.
    """

    def __init__(
        self,
        settings: WatchSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._progress = Progress(clock)
        self._written: dict[int, int] = {}
        self._unused_at: float | None = None
        self._stall_at: float | None = None

    def begin(self) -> None:
        """Begin to count: the command runs."""
        now = self._clock()
        self._progress.note()
        if self._settings.if_unused is not None:
            self._unused_at = now + self._settings.grace
        if self._settings.stall_timeout is not None:
            self._stall_at = now + self._settings.stall_timeout

    def on_sample(self, sample: Sample) -> None:
        """Note progress: work of a GPU, or bytes that a process has written."""
        if self._settings.stall_timeout is None:
            return
        self._progress.on_sample(sample)
        pids = sample.tree.pids if sample.tree else frozenset[int]()
        written = {pid: count for pid in pids if (count := _bytes_written(pid)) is not None}
        if any(count > self._written.get(pid, 0) for pid, count in written.items()):
            self._progress.note()
        self._written = written

    def note_progress(self) -> None:
        """Note progress now, such as output, or the end of a suspension."""
        self._progress.note()

    def seconds_left(self) -> float | None:
        """After how many seconds `due` may have something; `None` without limits."""
        times = [at for at in (self._unused_at, self._stall_at) if at is not None]
        return max(0.0, min(times) - self._clock()) if times else None

    def due(self, gpu_used: Callable[[], bool | None]) -> Event | None:
        """What is due now; each thing once.

        Args:
            gpu_used: returns whether a GPU has done work for the command; `None` if unknown.
        """
        now = self._clock()
        if self._unused_at is not None and now >= self._unused_at:
            self._unused_at = None
            if gpu_used() is False:
                return self._unused()
        if self._stall_at is not None and now >= self._stall_at:
            timeout = self._settings.stall_timeout or 0.0
            idle = self._progress.idle()
            if idle >= timeout:
                self._stall_at = None
                return Event(
                    f"no GPU did any work and nothing was written for {format_duration(timeout)} (--stall-timeout): "
                    "the command is ended",
                    STALLED,
                )
            self._stall_at = now + timeout - idle
        return None

    def _unused(self) -> Event:
        stops = self._settings.if_unused == STOP
        after = format_duration(self._settings.grace)
        text = f"no GPU did any work in the first {after} (--if-unused {self._settings.if_unused})"
        return Event(f"{text}: the command is ended" if stops else text, STOPPED_UNUSED if stops else "")


def _bytes_written(pid: int) -> int | None:
    """Bytes that a process has passed to write(2) and its like, to files, pipes and terminals: proc_pid_io(5)."""
    try:
        descriptor = os.open(f"/proc/{pid}/io", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        for line in os.read(descriptor, 4096).splitlines():
            if line.startswith(b"wchar: "):
                return int(line[7:])
    except (OSError, ValueError):
        return None
    finally:
        os.close(descriptor)
    return None
