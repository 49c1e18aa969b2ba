"""What `doctor` and `check` report: one form for everything that is found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    ERROR = "error"
    """It will fail, or run on the CPU at GPU price."""
    WARNING = "warning"
    """It will be slow, fragile or wasteful."""
    NOTE = "note"
    """Worth knowing; nothing need be done."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True)
class Location:
    """Where a finding is: in a file, or on a device of this machine.

    Args:
        file: path as the user would write it.
        line: from 1.
        column: from 1.
        device: such as `GPU 0 (NVIDIA A10G)`.
    """

    file: str | None = None
    line: int | None = None
    column: int | None = None
    device: str | None = None

    def __str__(self) -> str:
        if self.device is not None:
            return self.device
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)


@dataclass(frozen=True)
class Finding:
    """One thing that was found.

    Args:
        code: short and stable, such as `D104`; its meaning never changes.
        severity: how bad it is.
        message: what is so and why it matters, in a sentence or two that name this machine's or file's own numbers.
        evidence: the readings that it follows from, a line each.
        remedy: what to type or change next.
        location: where it is; `None` for the machine or the project as a whole.
    """

    code: str
    severity: Severity
    message: str
    evidence: tuple[str, ...] = ()
    remedy: str | None = None
    location: Location | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; absent values are left out."""
        document = asdict(self)
        document["location"] = (
            {key: value for key, value in asdict(self.location).items() if value is not None}
            if self.location
            else None
        )
        return {key: value for key, value in document.items() if value not in (None, ())}
