"""Calls of a cloud API as data: `--dry-run` prints them and `submit` executes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from gpuproof.util.redaction import HIDDEN, is_secret


@dataclass(frozen=True)
class ApiCall:
    """One API call.

    Args:
        service: the boto3 service name, such as `sagemaker`.
        operation: the boto3 client method, such as `create_training_job`.
        request: all keyword arguments of the method.
        what: what the call does, as a phrase.
        undo: the call that undoes this one; None if nothing has to be undone.
        region: where it is made; empty for the region of the plan.
    """

    service: str
    operation: str
    request: Mapping[str, Any]
    what: str
    undo: ApiCall | None = None
    region: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON form for `--dry-run --format json`; secrets in environment variables are hidden."""
        return {
            "service": self.service,
            "operation": self.operation,
            **({"region": self.region} if self.region else {}),
            "request": redact(self.request),
            "what": self.what,
            "undo": None if self.undo is None else self.undo.to_json(),
        }


def redact(value: Any, key: str = "") -> Any:
    """A request in printable form: environment variables that look like secrets are hidden, and bytes are counted."""
    if key == "Environment" and isinstance(value, Mapping):
        return {name: HIDDEN if is_secret(str(name), str(item)) else item for name, item in value.items()}
    if key in ("UserData", "Content") and isinstance(value, str):
        # The script that an instance boots or starts with, several pages long.
        return f"<{len(value.encode()):,} bytes>"
    if isinstance(value, Mapping):
        return {name: redact(item, str(name)) for name, item in value.items()}
    if isinstance(value, bytes):
        return f"<{len(value):,} bytes>"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [redact(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def format_calls(calls: Sequence[ApiCall]) -> list[tuple[str, str]]:
    """A title and the request as JSON for each call; consecutive calls that do the same are listed once."""
    entries: list[tuple[str, str]] = []
    for _, same in groupby(calls, key=lambda call: (call.service, call.operation, call.region, call.what)):
        group = list(same)
        first = group[0]
        times = f" ({len(group)} times)" if len(group) > 1 else ""
        where = f" in {first.region}" if first.region else ""
        title = f"{first.service} {first.operation}{where}{times}: {first.what}"
        entries.append((title, json.dumps(redact(first.request), indent=2, default=str)))
    return entries
