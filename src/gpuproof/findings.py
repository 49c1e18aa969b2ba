"""Findings: the common form of what `doctor`, `check` and the host of a run report; both halves use it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Severity(str, Enum):  # noqa: UP042 - host code runs on Python 3.9
    """Severity of a finding, worst first."""

    ERROR = "error"
    """It will fail, or run on the CPU at GPU price."""
    WARNING = "warning"
    """It will be slow, fragile or wasteful."""
    NOTE = "note"
    """Worth knowing; no action needed."""

    def __str__(self) -> str:
        return self.value

    @property
    def rank(self) -> int:
        """Position in the order; 0 is the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True)
class Location:
    """Location of a finding: in a file, or on a device of this machine.

    Args:
        file: path as the user writes it.
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
    """One finding.

    Args:
        code: short and stable, such as `D104`; its meaning never changes.
        severity: error, warning or note.
        message: what was found and why it matters, in one or two sentences with the numbers of this machine or file.
        evidence: the readings that support it, one line each.
        remedy: what to type or change next.
        location: where it is; `None` for the whole machine or project.
        private: parts of the texts that name persons, programs or accounts; left out of reports that are published.
    """

    code: str
    severity: Severity
    message: str
    evidence: tuple[str, ...] = ()
    remedy: str | None = None
    location: Location | None = None
    private: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The message with its location in front, unless the message itself names it."""
        if self.location is None or str(self.location) in self.message:
            return self.message
        return f"{self.location}: {self.message}"

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object, without absent values."""
        document = asdict(self)
        del document["private"]
        document["location"] = (
            {key: value for key, value in asdict(self.location).items() if value is not None}
            if self.location
            else None
        )
        return {key: value for key, value in document.items() if value not in (None, ())}
