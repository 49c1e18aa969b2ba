"""Comparisons in words and columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.util.humanize import format_seconds, format_seconds_range

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
        low, value, high = time["shown"]
        planned = format_seconds_range(low, value, high)
        parts.append(f"step {format_seconds(time['measured'])}, planned {planned}")
    return "; ".join(parts)


def gib(count: float) -> str:
    """Bytes as `3.4 GiB`."""
    return f"{count / _GIB:.1f} GiB"


def gib_range(limits: list[float]) -> str:
    """Lower limit, value and upper limit as `3.4 GiB (2.6-4.7)`."""
    low, value, high = limits
    return f"{gib(value)} ({low / _GIB:.1f}-{high / _GIB:.1f})"


def error_percent(found: Mapping[str, Any]) -> str:
    """How much more was measured than planned, as `+12 %`."""
    planned = found["shown"][1]
    return f"{(found['measured'] / planned - 1) * 100:+.0f} %" if planned else "-"
