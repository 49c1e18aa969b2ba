"""Why EC2 ended an instance that left no report, in words (`data/state_reasons.csv`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from gpuproof.agent.state import FAILED
from gpuproof.util.csv_table import read_rows

NO_CAPACITY = "Server.InsufficientInstanceCapacity"
RECLAIMED = frozenset({"Server.SpotInstanceShutdown", "Server.SpotInstanceTermination"})
"""Codes of spot instances that EC2 has taken back."""

SHUT_DOWN = "Client.InstanceInitiatedShutdown"
"""The code of an instance that powered off by itself."""

_TABLE = Path(__file__).parent / "data" / "state_reasons.csv"
_TIME = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")


@dataclass(frozen=True)
class StateReason:
    """Why an instance ended.

    Args:
        code: EC2's code, such as `Client.UserInitiatedShutdown`; empty if EC2 named none.
        status: how a run without a report ended: `Failed` or `Stopped`.
        text: the reason as a sentence without its full stop.
    """

    code: str
    status: str
    text: str

    @property
    def is_reclaimed(self) -> bool:
        """Whether EC2 has reclaimed a spot instance."""
        return self.code in RECLAIMED


def state_reason(instance: Mapping[str, Any] | None) -> StateReason:
    """Why an instance ended.

    Args:
        instance: its description; None if EC2 no longer knows it.
    """
    if instance is None:
        return StateReason("", FAILED, "its instance no longer exists, and left no report")
    reported: Mapping[str, str] = instance.get("StateReason") or {}
    code, message = reported.get("Code", ""), reported.get("Message", "")
    known = _table().get(code)
    if known is not None:
        return StateReason(code, *known)
    said = message or instance.get("StateTransitionReason") or "EC2 gives no reason"
    return StateReason(code, FAILED, f"its instance ended without a report: {said.rstrip('.')}")


def transition_time(instance: Mapping[str, Any]) -> float | None:
    """When an instance was terminated, in seconds since the epoch; None if EC2 does not report it.

    EC2 has no other field with that time than its text, such as `User initiated (2026-11-22 10:00:00 GMT)`.
    """
    found = _TIME.search(instance.get("StateTransitionReason") or "")
    if found is None:
        return None
    return datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()


@cache
def _table() -> dict[str, tuple[str, str]]:
    return {row["code"]: (row["status"], row["text"]) for row in read_rows(_TABLE)}
