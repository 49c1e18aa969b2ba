"""Requests to save now, and more often from then on: the agent writes a file when EC2 says that it may take the instance back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpuproof.runtime.contract import base_folder

REQUEST_FILE = "input/config/checkpoint-request"
"""Path below `/opt/ml`; the file stays as long as the risk does."""

_INTERVAL_S = 60.0
_SHARE = 20
"""Saving takes at most this share of the time: an interval is that many times as long as a save."""


class SaveRequest:
    """The request of one process, which is due at once and then again every minute, or less often if a save takes long.

    Args:
        path: by default `/opt/ml/input/config/checkpoint-request`.
        clock: seconds, of a monotonic clock.
    """

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = base_folder() / REQUEST_FILE if path is None else path
        self._clock = clock
        self._next: float | None = None

    def is_due(self) -> bool:
        """Whether to save now."""
        if self._next is None:
            return self._path.exists()
        return self._clock() >= self._next and self._path.exists()

    def record_save(self, seconds: float) -> None:
        """Record that the state was saved, and how long that took."""
        if self._next is not None or self._path.exists():
            self._next = self._clock() + max(_INTERVAL_S, _SHARE * seconds)


_requests: list[SaveRequest] = []


def checkpoint_requested() -> bool:
    """Whether a script that saves by itself should save now, because EC2 may soon take the spot instance back.

    True at the first call after the announcement, then once a minute as long as the risk lasts. Several processes must agree
    before they save together; `checkpoint()` does all of that by itself.
    """
    if not _requests:
        _requests.append(SaveRequest())
    due = _requests[0].is_due()
    if due:
        _requests[0].record_save(0.0)
    return due
