"""Detects that the process was suspended (SIGSTOP, frozen cgroup, paused machine), so that timeouts can be extended.

The clock continues while a process is suspended. Without this check, a server would afterwards treat healthy workers as
hung and connected clients as gone. Only the delay of its own regular checks reveals the suspension.
"""

from __future__ import annotations

_MIN_DELAY_S = 1.0
"""No callback of the event loop takes this long."""


class SuspendDetector:
    """Measures how late regular checks are.

    Args:
        interval_s: seconds between two checks.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last = 0.0

    def start(self, now: float) -> None:
        """Start the regular checks at `now`, in seconds on a monotonic clock."""
        self._last = now

    def check(self, now: float) -> float:
        """Return for how many seconds the process was suspended since the last check; normally 0."""
        delay = now - self._last - self._interval_s
        self._last = now
        return delay if delay > _MIN_DELAY_S else 0.0
