"""Result types: an explanation of one error in a log, and the advice that makes it specific to a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gpuproof.explain.context import Context
from gpuproof.findings import Finding, Location, Severity


@dataclass(frozen=True)
class Explanation:
    """One known error found in a log, with the errors that followed from it.

    Args:
        severity: error or warning.
        text: the matching line, without prefixes.
        log: name of the log; `None` if it has none.
        line: number of that line, from 1; `None` if the text is not a line of a log.
        last_line: number of the last matching line.
        count: number of matching lines.
        here: details for this machine or instance type; `None` if nothing more is known.
        remedy: what to type or change next.
        source: key of the source in `data/sources.csv` or in the catalogue.
        consequences: errors that this one explains, in the order of the log.
        is_symptom: whether an error of this kind mostly has another cause.
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
    is_symptom: bool = False

    @property
    def location(self) -> Location:
        """The matching line."""
        return Location(file=self.log, line=self.line)

    @property
    def finding(self) -> Finding:
        """The explanation as a finding, as `doctor` and `check` report them."""
        return Finding(
            code=self.code,
            severity=self.severity,
            message=" ".join(filter(None, (self.cause, self.here))),
            evidence=(self.text,),
            remedy=self.remedy,
            location=self.location,
        )

    def with_consequence(self, other: Explanation) -> Explanation:
        """Add another error, and the errors that it explained, as consequences of this one."""
        added = (replace(other, consequences=()), *other.consequences)
        consequences = sorted((*self.consequences, *added), key=lambda item: (item.line is None, item.line))
        return replace(self, consequences=tuple(consequences))

    def to_json(self) -> dict[str, Any]:
        """The explanation as a JSON object, without absent values."""
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
                    "code": consequence.code,
                    "location": consequence.finding.to_json()["location"],
                    "text": consequence.text,
                    "count": consequence.count,
                }
                for consequence in self.consequences
            ],
        }
        return {key: value for key, value in document.items() if value not in (None, [])}


class Advice(NamedTuple):
    """Details for one error on the machine, instance type or account of the log.

    Attributes:
        here: one or two sentences about this machine; empty if nothing more is known.
        remedy: printed before the general remedy; empty if that is sufficient.
        instead: whether `remedy` replaces the general one.
        otherwise: printed after the general remedy: a more expensive alternative.
    """

    here: str = ""
    remedy: str = ""
    instead: bool = False
    otherwise: str = ""


AdviceFunction = Callable[[Mapping[str, str], Context], Advice | None]
"""Takes the groups that the pattern matched, plus `code`, and the context; returns `None` if it knows nothing."""
