"""Time in which the whole server did not run: a container that was frozen, a SIGSTOP, a machine that stood still.

The clock goes on meanwhile. Whoever then only looks at it takes predictors that are well for hanging and clients that are
there for gone; only looks that came too late themselves tell one from the other.
"""

from __future__ import annotations

_NOTICED_S = 1.0
"""No callback of the event loop takes as long."""


class Stops:
    """Asked at regular times.

    Args:
        every_s: how often.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._last = 0.0

    def begin(self, now: float) -> None:
        """From now on the looks are regular."""
        self._last = now

    def look(self, now: float) -> float:
        """Seconds in which nothing ran since the last look; 0 is the rule."""
        late = now - self._last - self._every_s
        self._last = now
        return late if late > _NOTICED_S else 0.0
