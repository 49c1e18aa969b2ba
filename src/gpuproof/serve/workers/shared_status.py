"""Status that a worker publishes in shared memory: how many requests it has taken, and since when it is busy.

When a worker dies, the frontend uses it to distinguish the requests that the worker had started from those that were
still in its socket, which another worker can answer.
"""

from __future__ import annotations

import mmap
import os
import signal
import tempfile

TIMEOUT_SIGNAL = signal.SIGUSR1
"""Makes a worker check whether its present call exceeds the timeout."""
DUMP_STACK_SIGNAL = signal.SIGUSR2
"""Makes a worker write its stack to the log before it is killed, even inside a library's native code."""
_SIZE = mmap.PAGESIZE


class SharedStatus:
    """A worker's status. The frontend creates it with `SharedStatus.create()`, the worker opens it by descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        # Eight bytes each, so that reads and writes are atomic.
        self._taken = memoryview(self._memory).cast("Q")[:1]
        self._busy_since = memoryview(self._memory).cast("d")[1:2]

    @classmethod
    def create(cls) -> SharedStatus:
        """Create a status with all values zero."""
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("gpuproof-serve", os.MFD_CLOEXEC)
        else:
            descriptor, name = tempfile.mkstemp()
            os.unlink(name)  # noqa: PTH108 - a descriptor, not a file
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def publish(self, taken: int, busy_since: float) -> None:
        """Publish both values."""
        self._taken[0] = taken
        self._busy_since[0] = busy_since

    def set_busy_since(self, since: float) -> None:
        """Publish since when the worker is busy; 0 when idle."""
        self._busy_since[0] = since

    @property
    def taken(self) -> int:
        """How many requests the worker has taken from its socket, in the order they were sent."""
        return self._taken[0]

    @property
    def busy_since(self) -> float:
        """When the worker started its present call, on `time.monotonic`'s clock; 0 when idle."""
        return self._busy_since[0]

    def close(self) -> None:
        """Unmap the memory and close the descriptor."""
        self._taken.release()
        self._busy_since.release()
        self._memory.close()
        os.close(self.descriptor)
