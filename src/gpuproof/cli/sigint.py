"""Ctrl-C held back while a run is started: it must find a run that can be stopped, or none at all."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self


class HeldInterrupt:
    """Within this context Ctrl-C is remembered; `release`, or leaving the context, lets it through as usual.

    A handler does it and not a signal mask: programs that are started meanwhile would inherit a mask.
    """

    def __init__(self) -> None:
        self._came = False
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._remember)
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Ctrl-C works again.

        Raises:
            KeyboardInterrupt: it came meanwhile.
        """
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if self._came:
            self._came = False
            raise KeyboardInterrupt

    def _remember(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
