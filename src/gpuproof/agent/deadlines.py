"""When the agent must act on its own: limits on time and on waiting, apart from anything that happens."""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_DURATION = "max_duration"
GPU_GRACE = "gpu_grace"
STOP_GRACE = "stop_grace"


@dataclass
class Deadlines:
    """Named points in time, in seconds of a monotonic clock; each is due once."""

    _at: dict[str, float] = field(default_factory=dict)

    def set(self, name: str, at: float) -> None:
        """Be due at that time; a name that is set keeps the earlier one."""
        self._at[name] = min(at, self._at.get(name, at))

    def drop(self, name: str) -> None:
        """Forget one."""
        self._at.pop(name, None)

    def wait(self, now: float) -> float | None:
        """Seconds until the next one; `None` when there is none."""
        return max(0.0, min(self._at.values()) - now) if self._at else None

    def due(self, now: float) -> list[str]:
        """Those that have come, earliest first; they are forgotten."""
        names = sorted((name for name, at in self._at.items() if at <= now), key=lambda name: self._at[name])
        for name in names:
            self.drop(name)
        return names
