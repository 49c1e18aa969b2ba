"""Interrupts of the process that follows a run: SIGTERM is treated like Ctrl-C, and both can be delayed."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Generator
from types import FrameType
from typing import Any, Self


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived, as when a CI job is cancelled."""


@contextlib.contextmanager
def sigterm_interrupts() -> Generator[None, None, None]:
    """Context in which SIGTERM raises `Terminated`, so that a run is stopped as after Ctrl-C and not left behind.

    Does nothing outside the main thread, where Python allows no signal handlers, and if the program handles SIGTERM itself.
    """
    if not _is_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _raise_terminated)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class DeferredInterrupt:
    """Context in which Ctrl-C and SIGTERM are recorded; `release`, or leaving the context, raises them.

    While a run is being started, an interrupt thus always finds either no run or one that can be stopped. Uses signal
    handlers and not a signal mask, because child processes would inherit a mask. Does nothing outside the main thread.
    """

    def __init__(self) -> None:
        self._pending: type[KeyboardInterrupt] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if not self._before and _is_main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Restores the previous handlers.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed in the meantime.
            Terminated: SIGTERM arrived in the meantime.
        """
        while self._before:
            signal.signal(*self._before.popitem())
        if self._pending is not None:
            pending, self._pending = self._pending, None
            raise pending

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._pending = Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _raise_terminated(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
