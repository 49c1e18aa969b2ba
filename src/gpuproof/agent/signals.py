"""Stop requests: signals turned into events that the agent can wait for."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import signal
from collections.abc import Generator

from gpuproof.util.process_guard import STOP_SIGNALS, wake_up


class StopRequest(enum.Enum):
    """How the run shall end."""

    GRACEFUL = "stop"
    AT_ONCE = "stop now"


class StopRequested(Exception):
    """A stop was requested while the agent was busy with work that can be abandoned."""


class StopSignals:
    """Receives stop requests: SIGTERM and SIGINT stop gracefully, SIGQUIT at once; SIGHUP (a closed terminal) is ignored.

    Wait for `fileno` with `select`, then call `take`. Within `with signals.interrupting():`, a request raises
    `StopRequested` instead.
    """

    def __init__(self) -> None:
        self._readable, self._writable = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._writable, False)
        self._pending: list[StopRequest] = []
        self._interrupt = False

    def install(self) -> None:
        """Install the signal handlers; call it in the main thread."""
        for number, request in (
            (signal.SIGTERM, StopRequest.GRACEFUL),
            (signal.SIGINT, StopRequest.GRACEFUL),
            (signal.SIGQUIT, StopRequest.AT_ONCE),
        ):
            signal.signal(number, functools.partial(self._on_signal, request))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        # A child's exit wakes `select` too: the caller collects it.
        signal.signal(signal.SIGCHLD, wake_up)
        # The C handler writes to the pipe in whichever thread the kernel delivers the signal to; a Python handler runs
        # in the main thread only, and only once something else has woken it.
        signal.set_wakeup_fd(self._writable, warn_on_full_buffer=False)
        # The supervisor of several hosts starts agents with these blocked, so that none is lost until now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)

    def fileno(self) -> int:
        """File descriptor that becomes readable on a request, or when a child of this process has ended."""
        return self._readable

    def take(self) -> StopRequest | None:
        """Remove and return the oldest pending request; `None` without one."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._readable, 4096)
        return self._pending.pop(0) if self._pending else None

    @contextlib.contextmanager
    def interrupting(self) -> Generator[None, None, None]:
        """Context in which a request raises `StopRequested`."""
        if self._pending:
            raise StopRequested
        self._interrupt = True
        try:
            yield
        finally:
            self._interrupt = False

    def _on_signal(self, request: StopRequest, _number: int, _frame: object) -> None:
        self._pending.append(request)
        if self._interrupt:
            self._interrupt = False
            raise StopRequested
