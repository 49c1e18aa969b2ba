"""Requests to stop: signals turned into something that the agent can wait for."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from collections.abc import Generator

GRACEFUL = "stop"
AT_ONCE = "stop now"


class StopRequested(Exception):
    """Somebody asked the run to stop while the agent was busy with work that can be dropped."""


class StopSignals:
    """SIGTERM and SIGINT ask for a stop, SIGQUIT for one without grace; SIGHUP is a closed terminal and asks nothing.

    Use `fileno` in `select`, then `taken`. Within `with signals.interrupting():` a request raises `StopRequested`
    instead of waiting to be taken.
    """

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        self._pending: list[str] = []
        self._interrupt = False

    def install(self) -> None:
        """Begin to listen; call it in the main thread."""
        for number, word in (
            (signal.SIGTERM, GRACEFUL),
            (signal.SIGINT, GRACEFUL),
            (signal.SIGQUIT, AT_ONCE),
        ):
            signal.signal(number, functools.partial(self._arrived, word))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # A child's end wakes as well: whoever waits collects it.
        signal.signal(signal.SIGCHLD, _wake)
        # Written by the C handler, in whichever thread the kernel delivers the signal: a handler in Python runs in the
        # main thread alone, and only once something else has woken it.
        signal.set_wakeup_fd(self._writable, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """Becomes readable when a request came, or a child of this process has ended."""
        return self._readable

    def taken(self) -> str | None:
        """The oldest request that was not taken yet: `stop`, `stop now` or `None`."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._readable, 4096)
        return self._pending.pop(0) if self._pending else None

    @contextlib.contextmanager
    def interrupting(self) -> Generator[None, None, None]:
        """A context in which a request raises `StopRequested`."""
        if self._pending:
            raise StopRequested
        self._interrupt = True
        try:
            yield
        finally:
            self._interrupt = False

    def _arrived(self, word: str, _number: int, _frame: object) -> None:
        self._pending.append(word)
        if self._interrupt:
            self._interrupt = False
            raise StopRequested


def _wake(_number: int, _frame: object) -> None:
    """A handler, so that the signal's number is written to the wake-up pipe."""
