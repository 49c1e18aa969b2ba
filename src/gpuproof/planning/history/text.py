"""Comparisons in words and columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_GIB = 1 << 30


def comparison_text(entry: Mapping[str, Any]) -> str:
    """A comparison in a sentence.

    Args:
        entry: of the history.
    """
    parts: list[str] = []
    if (memory := entry.get("memory")) is not None:
        parts.append(f"memory {gib(memory['measured'])}, planned {gib_range(memory['shown'])}")
    if (time := entry.get("time")) is not None:
        parts.append(f"step {milliseconds(time['measured'])}, planned {milliseconds_range(time['shown'])}")
    return "; ".join(parts)


def gib(count: float) -> str:
    """Bytes as `3.4 GiB`."""
    return f"{count / _GIB:.1f} GiB"


def gib_range(limits: list[float]) -> str:
    """Lower limit, value and upper limit as `3.4 GiB (2.6-4.7)`."""
    low, value, high = limits
    return f"{gib(value)} ({low / _GIB:.1f}-{high / _GIB:.1f})"


def milliseconds(seconds: float) -> str:
    """Seconds as `70.2 ms`."""
    return f"{seconds * 1e3:.3g} ms"


def milliseconds_range(limits: list[float]) -> str:
    """Lower limit, value and upper limit as `70.2 ms (42.1-112)`."""
    low, value, high = limits
    return f"{milliseconds(value)} ({low * 1e3:.3g}-{high * 1e3:.3g})"


def error_percent(found: Mapping[str, Any]) -> str:
    """How much more was measured than planned, as `+12 %`."""
    planned = found["shown"][1]
    return f"{(found['measured'] / planned - 1) * 100:+.0f} %" if planned else "-"
