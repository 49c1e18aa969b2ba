"""A few numbers that a predictor shows to the front without a message: what it has taken up, and since when.

They lie in memory that both map. When a predictor dies, the front tells by them the requests that it was at from those
that merely waited in its socket, which another one may answer.
"""

from __future__ import annotations

import mmap
import os
import signal
import tempfile

LATE_SIGNAL = signal.SIGUSR1
"""The front has a predictor look whether its present request has run for too long."""
PLACE_SIGNAL = signal.SIGUSR2
"""The front has a predictor write where it is before it is killed; also in the middle of a library's code."""
_SIZE = mmap.PAGESIZE


class Board:
    """The shared numbers. Made by the front with `Board.make()`, opened by the predictor with `Board(fd)`."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        # Eight bytes each, so that neither is ever seen half written.
        self._taken = memoryview(self._memory).cast("Q")[:1]
        self._busy_since = memoryview(self._memory).cast("d")[1:2]

    @classmethod
    def make(cls) -> Board:
        """A new one, all zero."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("gpuproof-serve", os.MFD_CLOEXEC)
        else:
            descriptor, name = tempfile.mkstemp()
            os.unlink(name)  # noqa: PTH108 - a descriptor, not a file
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def show(self, taken: int, busy_since: float) -> None:
        """Show how many requests were ever taken up, and when the present ones were; 0 when idle."""
        self._taken[0] = taken
        self._busy_since[0] = busy_since

    def busy(self, since: float) -> None:
        """Show when the present ones were taken up."""
        self._busy_since[0] = since

    @property
    def taken(self) -> int:
        """How many requests the predictor has ever taken up, in the order they were sent."""
        return self._taken[0]

    @property
    def busy_since(self) -> float:
        """When it took up what it is at, on `time.monotonic`'s clock; 0 when idle."""
        return self._busy_since[0]

    def close(self) -> None:
        """Let go of it."""
        self._taken.release()
        self._busy_since.release()
        self._memory.close()
        os.close(self.descriptor)
