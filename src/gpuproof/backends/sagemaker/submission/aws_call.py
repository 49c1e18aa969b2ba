"""AWS calls as data: what `--dry-run` shows and `submit` executes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

HIDDEN = "***"


@dataclass(frozen=True)
class Call:
    """One call of an AWS API.

    Args:
        service: as boto3 names it, such as `sagemaker`.
        operation: the client's method, such as `create_training_job`.
        request: its keyword arguments, complete.
        what: what it does, in words.
        undo: what takes it back; None where there is nothing to take back.
    """

    service: str
    operation: str
    request: Mapping[str, Any]
    what: str
    undo: Call | None = None


def to_json(call: Call) -> dict[str, Any]:
    """The call for `--dry-run --format json`; variables of the environment, which may be secrets, are hidden."""
    return {
        "service": call.service,
        "operation": call.operation,
        "request": shown(call.request),
        "what": call.what,
        "undo": None if call.undo is None else to_json(call.undo),
    }


def shown(value: Any, key: str = "") -> Any:
    """A request as it may be printed."""
    if key == "Environment" and isinstance(value, Mapping):
        return dict.fromkeys(value, HIDDEN)
    if isinstance(value, Mapping):
        return {name: shown(item, str(name)) for name, item in value.items()}
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [shown(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def lines(calls: Sequence[Call]) -> list[tuple[str, str]]:
    """The calls for a person, those of one kind together: what each does, and its request as JSON."""
    told: list[tuple[str, str]] = []
    for _, same in groupby(calls, key=lambda call: (call.service, call.operation, call.what)):
        group = list(same)
        first = group[0]
        times = f" ({len(group)} times)" if len(group) > 1 else ""
        told.append((f"{first.service} {first.operation}{times}: {first.what}", _text(first)))
    return told


def _text(call: Call) -> str:
    return json.dumps(shown(call.request), indent=2, default=str)
