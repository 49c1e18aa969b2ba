"""Deadlines at which the agent acts: time limits and grace periods."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Deadline(enum.Enum):
    """What becomes due."""

    MAX_DURATION = "max_duration"
    GPU_GRACE = "gpu_grace"
    STOP_GRACE = "stop_grace"
    STALL = "stall"


@dataclass
class Deadlines:
    """Points in time, in seconds of a monotonic clock; each becomes due once."""

    _at: dict[Deadline, float] = field(default_factory=dict)

    def set(self, deadline: Deadline, at: float) -> None:
        """Set a deadline; one that is set already keeps the earlier time."""
        self._at[deadline] = min(at, self._at.get(deadline, at))

    def wait(self, now: float) -> float | None:
        """Seconds until the next deadline; `None` without one."""
        return max(0.0, min(self._at.values()) - now) if self._at else None

    def due(self, now: float) -> list[Deadline]:
        """Remove and return the deadlines that have passed, earliest first."""
        passed = sorted((one for one, at in self._at.items() if at <= now), key=lambda one: self._at[one])
        for deadline in passed:
            del self._at[deadline]
        return passed
