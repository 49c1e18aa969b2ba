"""AMIs that certainly have no NVIDIA driver, by name filter, SSM parameter or EKS's AMI type."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuproof.util.csv_table import read_rows

_TABLE = Path(__file__).parents[2] / "data" / "plain_amis.csv"


class PlainAmi(NamedTuple):
    """An AMI without a driver.

    Attributes:
        what: what it is, for messages.
        instead: what has a driver.
    """

    pattern: str
    what: str
    instead: str


def plain_ami(name: str) -> PlainAmi | None:
    """The row of an AMI without a driver; None for others."""
    plain = name.removeprefix("resolve:ssm:").removeprefix("{{resolve:ssm:").removesuffix("}}")
    return next((row for row in _rows() if fnmatchcase(plain.lower(), row.pattern.lower())), None)


@cache
def _rows() -> tuple[PlainAmi, ...]:
    return tuple(PlainAmi(row["pattern"], row["what"], row["instead"]) for row in read_rows(_TABLE))
