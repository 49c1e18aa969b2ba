"""Events from threads and SIGTERM, for the main thread of an MPI program."""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from typing import Generic, Optional, TypeVar

_Event = TypeVar("_Event")


class Events(Generic[_Event]):
    """A queue that SIGTERM puts an event into, too.

    A main thread that waits for a lock would not notice a signal that arrives just before; it waits for a pipe here, into which
    the signal handler of the interpreter writes.
    """

    def __init__(self, stop: _Event) -> None:
        self._events: deque[_Event] = deque()
        self._readable, self._writable = os.pipe()
        for descriptor in (self._readable, self._writable):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(self._writable, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._events.append(stop))

    def put(self, event: _Event) -> None:
        """Add an event; from any thread."""
        self._events.append(event)
        try:
            os.write(self._writable, b"\0")
        except BlockingIOError:
            pass  # the pipe is full: the reader wakes up anyway

    def get(self, timeout: float | None = None) -> Optional[_Event]:  # noqa: UP045 - no `|` with a type variable in 3.9
        """Wait for the next event; `None` if there is none within the timeout in seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self._events:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            if select.select([self._readable], [], [], left)[0]:
                os.read(self._readable, 4096)
        return self._events.popleft()
