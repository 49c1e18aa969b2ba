"""What to do about each error that AWS is known to answer: `data/remedies.csv`, the first row that fits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from gpuproof.util.csv_table import read_rows

_TABLE = Path(__file__).parent / "data" / "remedies.csv"
_OPTIONAL = re.compile(r"\[\[(.*?)\]\]")
_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Remedy:
    """One row.

    Args:
        service: as boto3 names it, or a pattern.
        operation: as AWS names it, or a pattern.
        codes: patterns of AWS error codes, or names of botocore's exceptions.
        message: a regular expression that AWS's message holds.
        remedy: what to do; `{name}` stands for a fact, and `[[...]]` is left out where a fact in it is not known.
        source: where the code and its meaning come from.
    """

    service: str
    operation: str
    codes: tuple[str, ...]
    message: str
    remedy: str
    source: str

    def fits(self, service: str, operation: str, codes: Sequence[str], message: str) -> bool:
        """Whether the row speaks of this error."""
        return (
            any(fnmatchcase(code, pattern) for pattern in self.codes for code in codes)
            and fnmatchcase(service, self.service)
            and fnmatchcase(operation, self.operation)
            and re.search(self.message, message, re.IGNORECASE) is not None
        )

    def said(self, facts: Mapping[str, str]) -> str:
        """The remedy with the facts in it."""

        def whole(match: re.Match[str]) -> str:
            return match[1] if all(facts.get(name) for name in _NAME.findall(match[1])) else ""

        text = _OPTIONAL.sub(whole, self.remedy)
        return _NAME.sub(lambda match: facts.get(match[1]) or match[1].upper(), text)


def find_remedy(service: str, operation: str, codes: Sequence[str], message: str) -> Remedy:
    """What to do about an error.

    Args:
        codes: AWS's error code; or the names of an exception's class and of its bases.
    """
    return next(row for row in read_remedies() if row.fits(service, operation, codes, message))


@cache
def read_remedies() -> tuple[Remedy, ...]:
    """All rows, in their order."""
    return tuple(
        Remedy(
            row["service"],
            row["operation"],
            tuple(row["codes"].split()),
            row["message"],
            row["remedy"],
            row["source"],
        )
        for row in read_rows(_TABLE)
    )
