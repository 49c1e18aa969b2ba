"""What to try after a refused launch; `data/errors.csv` has the error codes.

They are those of RunInstances: codes of fleets, and statuses of spot requests, which GPUproof does not make, are not among them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from gpuproof.util.csv_table import read_rows

Next = Literal["zone", "type", "quota", "region", "again", "stop"]
"""What to try next: another zone, another type, a type that another quota covers, another region, the same some seconds later
because something new is not known everywhere yet, or nothing."""

_TABLE = Path(__file__).parent / "data" / "errors.csv"
_ZONE = re.compile(r"\b[a-z]{2}(?:-[a-z]+)+-\d[a-z]\b")
_ELSEWHERE = re.compile(r"choosing (?P<zones>.*)", re.DOTALL)


@dataclass(frozen=True)
class LaunchError:
    """A row of the table.

    Args:
        code: EC2's error code, or the code of an instance's state reason.
        message: a regular expression that EC2's message matches; empty for any.
        kind: what it is about, such as `capacity`, `not offered` or `quota`.
        passes: whether the same launch may succeed some time later.
        source: where it was seen or is documented.
    """

    code: str
    message: str
    kind: str
    next: Next
    passes: bool
    source: str


def next_attempt(code: str, message: str) -> Next:
    """What to try after an error; `stop` for codes that are not in the table.

    Args:
        code: EC2's error code.
        message: EC2's message.
    """
    found = find_error(code, message)
    return "stop" if found is None else found.next


def find_error(code: str, message: str) -> LaunchError | None:
    """The first row that matches; None if there is none."""
    return next(
        (
            row
            for row in read_errors()
            if row.code == code and re.search(row.message, message, re.IGNORECASE) is not None
        ),
        None,
    )


def zones_with_capacity(message: str) -> tuple[str, ...]:
    """The zones that EC2's message recommends, in its order."""
    found = _ELSEWHERE.search(message)
    return tuple(_ZONE.findall(found["zones"])) if found is not None else ()


@cache
def read_errors() -> tuple[LaunchError, ...]:
    """All rows, in order."""
    return tuple(
        LaunchError(
            row["code"],
            row["message"],
            row["kind"],
            _next(row["next"]),
            row["passes"] == "yes",
            row["source"],
        )
        for row in read_rows(_TABLE)
    )


def _next(text: str) -> Next:
    if text not in ("zone", "type", "quota", "region", "again", "stop"):
        raise ValueError(f"errors.csv: '{text}' is not a next attempt")
    return text
