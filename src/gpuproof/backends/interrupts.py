"""Interrupts of the process that follows a run: SIGTERM is treated like Ctrl-C, both can be delayed, and none is lost."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Generator
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_AGAIN_S = 0.01
"""Seconds until a discarded interrupt is sent again: the code that discards it has then ended."""


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


@contextlib.contextmanager
def redelivered_interrupts() -> Generator[None, None, None]:
    """Context in which an interrupt that Python discards is sent again.

    Python raises KeyboardInterrupt wherever the main thread happens to be. In a finalizer or a weak reference's callback, of which
    the import of each module runs one, it only prints the exception: of 250 interrupts while boto3 was imported, 2 were lost.
    """
    if not _is_main_thread():
        yield
        return
    before, main_thread = sys.unraisablehook, threading.get_ident()

    def hook(discarded: UnraisableHookArgs) -> None:
        if issubclass(discarded.exc_type, KeyboardInterrupt):
            number = signal.SIGTERM if issubclass(discarded.exc_type, Terminated) else signal.SIGINT
            # Not `threading`, whose locks the interrupted code may hold.
            _thread.start_new_thread(_send_later, (main_thread, number))
        else:
            before(discarded)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


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
            numbers = (signal.SIGINT, signal.SIGTERM)
            before: dict[int, Any] = {number: signal.getsignal(number) for number in numbers}
            try:
                for number in before:
                    signal.signal(number, self._remember)
            except KeyboardInterrupt:
                # One arrived before both handlers were replaced: the caller never leaves this context.
                _restore(before)
                raise
            self._before = before
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Restores the previous handlers.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed in the meantime.
            Terminated: SIGTERM arrived in the meantime.
        """
        before, self._before = self._before, {}
        _restore(before)
        if self._pending is not None:
            pending, self._pending = self._pending, None
            raise pending

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        self._pending = Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _restore(handlers: dict[int, Any]) -> None:
    """Restore all handlers, even if one of them raises as soon as it is restored."""
    try:
        for number in list(handlers):
            signal.signal(number, handlers[number])
            del handlers[number]
    finally:
        if handlers:
            _restore(handlers)


def _send_later(main_thread: int, number: int) -> None:
    time.sleep(_AGAIN_S)
    signal.pthread_kill(main_thread, number)


def _raise_terminated(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
