"""What became of each setting."""

from __future__ import annotations

import os
from dataclasses import dataclass

_ours: dict[str, str] = {}


@dataclass(frozen=True)
class Outcome:
    """One setting.

    Args:
        setting: what, in words, such as `memory growth (TensorFlow)`.
        value: to what.
        problem: why it was not applied; `None` where it was.
    """

    setting: str
    value: str
    problem: str | None = None

    def __str__(self) -> str:
        return f"{self.setting} = {self.value}" + (f": {self.problem}" if self.problem else "")


@dataclass(frozen=True)
class Wishes:
    """What `setup()` was asked for, in its words; `None` leaves a thing as it is."""

    memory_growth: bool
    visible_devices: tuple[int, ...] | None
    seed: int | None
    threads: int | None
    allocator: str | None


def put_variable(name: str, value: str) -> Outcome:
    """Set an environment variable, unless the user has set it otherwise."""
    present = os.environ.get(name)
    if present is not None and present != value and _ours.get(name) != present:
        return Outcome(name, value, f"the environment says {present!r}, which goes before it")
    os.environ[name] = value
    _ours[name] = value
    return Outcome(name, value)
