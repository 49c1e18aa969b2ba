"""Times in JSON output: ISO 8601 in UTC, `2026-11-26T10:30:00.123Z`, as AWS writes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

TIME_KEYS = frozenset({"created", "started", "script_started", "ended", "status_since"})
"""Keys of `run.json` and `verdict.json` whose numbers are seconds since the epoch."""


def iso_time(seconds: float | None) -> str | None:
    """A time as text; None for None.

    Args:
        seconds: since the epoch.
    """
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def with_iso_times(document: Any) -> Any:
    """A JSON document whose times are text: the numbers of `TIME_KEYS`, at any depth."""
    if isinstance(document, Mapping):
        known: Mapping[str, Any] = document
        return {key: _value(key, value) for key, value in known.items()}
    if isinstance(document, list | tuple):
        items: list[Any] = list(document)  # pyright: ignore[reportUnknownArgumentType]
        return [with_iso_times(item) for item in items]
    return document


def _value(key: str, value: Any) -> Any:
    is_time = key in TIME_KEYS and isinstance(value, int | float) and not isinstance(value, bool)
    return iso_time(value) if is_time else with_iso_times(value)
