"""Defers Ctrl-C while a run is being started, so that it always finds either no run or one that can be stopped."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self


class DeferredInterrupt:
    """Context in which Ctrl-C is recorded; `release`, or leaving the context, raises it.

    Uses a signal handler and not a signal mask, because child processes would inherit a mask.
    """

    def __init__(self) -> None:
        self._pending = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Restores the previous handler.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed in the meantime.
        """
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if self._pending:
            self._pending = False
            raise KeyboardInterrupt

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        self._pending = True
