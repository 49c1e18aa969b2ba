"""`Setting`, one setting with its result, and `RequestedSettings`, the arguments of `setup()`."""

from __future__ import annotations

import os
from dataclasses import dataclass

_set_here: dict[str, str] = {}


@dataclass(frozen=True)
class Setting:
    """One setting and whether it was applied.

    Args:
        setting: its name, such as `memory growth of TensorFlow`.
        problem: why it was not applied; `None` if it was.
    """

    setting: str
    value: str
    problem: str | None = None

    def __str__(self) -> str:
        return f"{self.setting} = {self.value}" + (f": {self.problem}" if self.problem else "")


@dataclass(frozen=True)
class RequestedSettings:
    """Arguments of `setup()`; `None` leaves a setting unchanged."""

    memory_growth: bool
    visible_devices: tuple[int, ...] | None
    seed: int | None
    threads: int | None
    allocator: str | None


def set_variable(name: str, value: str) -> Setting:
    """Set an environment variable, unless the user has set another value."""
    present = os.environ.get(name)
    if present is not None and present != value and _set_here.get(name) != present:
        return Setting(name, value, f"the environment already sets {present!r}, which takes precedence")
    os.environ[name] = value
    _set_here[name] = value
    return Setting(name, value)
