"""`log_throughput()`: tells the agent how many examples this process has processed, and how many FLOPs that took.

A process's file has its counts, and the time and the count at the end of windows of equal length, which show how much the rate varies.
"""

from __future__ import annotations

import atexit
import os
import time
from contextlib import suppress
from pathlib import Path

from gpuproof.util.atomic import write_json

_FOLDER_VARIABLE = "GPUPROOF_THROUGHPUT"
"""Names the agent's folder for the counts of all processes on this host; without it, nothing is written."""

_INTERVAL_S = 1.0
_MOST_WINDOWS = 128
"""If there are more, pairs of windows become one."""
_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def log_throughput(examples: int, flops: float | None = None, precision: str | None = None) -> None:
    """Count the examples of one step, after the step; the verdict then has examples per second, also for each rank.

    Call it after each training step in every process, with the number of examples that this process itself has
    processed. The first call starts the clock, so that start-up and the first step, which may compile, do not count. A
    call takes about a microsecond; a file is written at most once a second. Has no effect outside of a job, and
    never raises.

    Args:
        examples: number of examples, such as the length of the batch.
        flops: floating-point operations of the model for these examples, forward and backward, without what is recomputed; a
            multiplication and an addition are two. If every call has them, the verdict has the model FLOPs utilization (MFU).
        precision: in which the model computes: `bfloat16`, `float16`, `tf32`, `float32` or `float8`. Without it, the agent takes the one
            that its step hooks or `gpuproof plan` have found.
    """
    with suppress(Exception):  # statistics must not end a training
        counter = _counters.get(os.getpid()) or _open_counter()
        counter.add(int(examples), None if flops is None else float(flops), precision)


class _Counter:
    """Counts of this process."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._rank = next((int(os.environ[name]) for name in _RANK_VARIABLES if os.environ.get(name)), None)
        self._first: float | None = None
        self._first_examples = 0
        self._last = 0.0
        self._examples = 0
        self._calls = 0
        self._flops: float | None = 0.0
        self._precision: str | None = None
        self._windows: list[tuple[float, int]] = []
        self._window_s = _INTERVAL_S
        self._next_write = 0.0
        self._unwritten = False

    def add(self, examples: int, flops: float | None, precision: str | None) -> None:
        if self._folder is None:
            return
        self._last = time.monotonic()
        self._examples += examples
        self._calls += 1
        self._precision = precision or self._precision
        self._unwritten = True
        if self._first is None:
            self._first, self._first_examples = self._last, self._examples
            if flops is None:
                self._flops = None
        else:
            # Those of the first call are left out, as its examples are.
            self._flops = None if self._flops is None or flops is None else self._flops + flops
            self._note_window(self._first)
        if self._last >= self._next_write:
            self._next_write = self._last + _INTERVAL_S
            self.write()

    def _note_window(self, first: float) -> None:
        if self._last - (self._windows[-1][0] if self._windows else first) < self._window_s:
            return
        self._windows.append((self._last, self._examples))
        if len(self._windows) > _MOST_WINDOWS:
            self._windows = self._windows[1::2]
            self._window_s *= 2

    def write(self) -> None:
        """Write the counts, if they have changed."""
        # A forked process also calls what its parent has registered for the exit.
        if self._folder is None or not self._unwritten or os.getpid() != self._pid:
            return
        self._unwritten = False
        document = {
            "rank": self._rank,
            "examples": self._examples,
            "first_examples": self._first_examples,
            "first": self._first,
            "last": self._last,
            "calls": self._calls,
            "flops": self._flops,
            "precision": self._precision,
            "windows": self._windows,
        }
        with suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            write_json(self._folder / f"{self._pid}.json", document)


_counters: dict[int, _Counter] = {}
"""By process id: a forked process begins anew."""


def _open_counter() -> _Counter:
    folder = os.environ.get(_FOLDER_VARIABLE)
    counter = _counters[os.getpid()] = _Counter(Path(folder) if folder else None)
    atexit.register(counter.write)
    return counter
