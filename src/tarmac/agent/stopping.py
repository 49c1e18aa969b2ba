"""Requests to stop: signals turned into something that the agent can wait for."""

from __future__ import annotations

import os
import signal

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
        self._pending: list[str] = []
        self._interrupt = False

    def install(self) -> None:
        """Begin to listen; call it in the main thread."""
        for number, word in (
            (signal.SIGTERM, GRACEFUL),
            (signal.SIGINT, GRACEFUL),
            (signal.SIGQUIT, AT_ONCE),
        ):
            signal.signal(number, lambda *_, word=word: self._arrived(word))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def fileno(self) -> int:
        """Becomes readable when a request came."""
        return self._readable

    def taken(self) -> str | None:
        """The oldest request that was not taken yet: `stop`, `stop now` or `None`."""
        try:
            os.read(self._readable, 1)
        except BlockingIOError:
            return None
        return self._pending.pop(0)

    def interrupting(self) -> _Interrupting:
        """A context in which a request raises `StopRequested`."""
        return _Interrupting(self)

    def _arrived(self, word: str) -> None:
        self._pending.append(word)
        os.write(self._writable, b".")
        if self._interrupt:
            self._interrupt = False
            raise StopRequested

    def _set_interrupt(self, on: bool) -> None:
        self._interrupt = on
        if on and self._pending:
            self._interrupt = False
            raise StopRequested


class _Interrupting:
    def __init__(self, signals: StopSignals) -> None:
        self._signals = signals

    def __enter__(self) -> None:
        self._signals._set_interrupt(True)  # noqa: SLF001 - two halves of one thing

    def __exit__(self, *_: object) -> None:
        self._signals._set_interrupt(False)  # noqa: SLF001
