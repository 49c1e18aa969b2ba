"""What `explain` says of one thing in a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from gpuproof.findings import Finding, Location, Severity


@dataclass(frozen=True)
class Explanation:
    """One cause, with what followed from it.

    Args:
        code: stable.
        severity: how bad it is.
        text: the line that it was recognised by, without prefixes.
        log: the log's name; `None` where it has none.
        line: number of that line, from 1; `None` where the text is no line of a log.
        last_line: number of the last such line.
        count: how many such lines there are.
        cause: what it means.
        here: the cause on this machine, or that instance type; `None` where nothing more is known.
        remedy: what to type or change next.
        source: where the knowledge comes from.
        as_of: ISO date of its reading.
        consequences: what this one explains away, in the order of the log.
    """

    code: str
    severity: Severity
    text: str
    log: str | None
    line: int | None
    last_line: int | None
    count: int
    cause: str
    here: str | None
    remedy: str
    source: str
    as_of: str
    consequences: tuple[Explanation, ...] = ()

    @property
    def location(self) -> Location:
        """Where it was recognised."""
        return Location(file=self.log, line=self.line)

    @property
    def finding(self) -> Finding:
        """In the form of `doctor` and `check`."""
        return Finding(
            code=self.code,
            severity=self.severity,
            message=" ".join(filter(None, (self.cause, self.here))),
            evidence=(self.text,),
            remedy=self.remedy,
            location=self.location,
        )

    def with_consequence(self, other: Explanation) -> Explanation:
        """With one more that it explains; what that one had explained comes along."""
        theirs = (replace(other, consequences=()), *other.consequences)
        together = sorted((*self.consequences, *theirs), key=lambda one: (one.line is None, one.line))
        return replace(self, consequences=tuple(together))

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; absent values are left out."""
        document: dict[str, Any] = {
            **self.finding.to_json(),
            "cause": self.cause,
            "here": self.here,
            "count": self.count,
            "last_line": self.last_line,
            "source": self.source,
            "as_of": self.as_of,
            "consequences": [
                {
                    "code": one.code,
                    "location": one.finding.to_json()["location"],
                    "text": one.text,
                    "count": one.count,
                }
                for one in self.consequences
            ],
        }
        return {key: value for key, value in document.items() if value not in (None, [])}
