"""What is known: error texts, facts that a log gives away and signs of failure, read from `data/*.csv`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

from gpuproof.findings import Severity

DATA = Path(__file__).parent / "data"

AREAS = (
    "driver",
    "containers",
    "distributed",
    "tensorflow",
    "torch",
    "python",
    "host",
    "sagemaker",
    "serving",
    "sdk",
    "ec2",
)
"""One table of error texts each."""

Depth = Literal["cause", "symptom", "wrapper"]
"""How near to the root an error is: a `symptom` mostly has another cause, a `wrapper` only passes on that its child
failed."""


class KnownError(NamedTuple):
    """A message that people meet.

    Attributes:
        code: stable; its meaning never changes.
        area: the table that it is in.
        clues: a line without any of these literal texts is not looked at.
        pattern: for a line without prefixes, time stamps and colours; its named groups fill the texts in.
        near: must match one of the lines around, too; empty where the line is enough.
        also: its groups are used where a line around matches; may be empty.
        when: `gpu-expected`: it is one only where the job was to have a GPU. Empty: always.
        caused_by: codes that explain it away where they were found too; `*` for anything nearer to the root.
        needs: names of the advice (see `advice/`) that specialises it.
        cause, remedy: texts with `{group}`; what stands in `[[…]]` is left out where a group in it is empty.
        evidence: `reproduced`, `read-in-source`, `read-in-docs`, `seen-in-logs` or `general-knowledge`.
        source: key into `sources()`.
        as_of: ISO date of the reading.
    """

    code: str
    area: str
    severity: Severity
    depth: Depth
    clues: tuple[str, ...]
    pattern: str
    near: str
    also: str
    when: str
    caused_by: tuple[str, ...]
    needs: tuple[str, ...]
    cause: str
    remedy: str
    evidence: str
    source: str
    as_of: str


class LogFact(NamedTuple):
    """Something that a log says about the machine that wrote it, such as its driver.

    Attributes:
        fact: `driver`, `gpu`, `instance_type`, `region`, `operation`, `entry_folder`, `torch` or `tensorflow`.
        pattern: its first group is the value.
    """

    fact: str
    clues: tuple[str, ...]
    pattern: str


class Sign(NamedTuple):
    """A line that shows that something failed, whatever it was."""

    clues: tuple[str, ...]
    pattern: str


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, ready to use. Most of them no log ever asks for, and compiling all takes a tenth of a second."""
    return re.compile(pattern, re.M)


@cache
def known_errors() -> tuple[KnownError, ...]:
    """Every error text, area by area."""
    return tuple(_error(area, row) for area in AREAS for row in _rows(area))


@cache
def log_facts() -> tuple[LogFact, ...]:
    """What logs give away."""
    return tuple(LogFact(row["fact"], _clues(row), row["pattern"]) for row in _rows("facts"))


@cache
def signs() -> tuple[Sign, ...]:
    """What shows that something failed."""
    return tuple(Sign(_clues(row), row["pattern"]) for row in _rows("signs"))


@cache
def table(name: str, key: str) -> dict[str, dict[str, str]]:
    """A table of the data folder, such as `xids`, by one of its columns."""
    return {row[key]: row for row in _rows(name)}


def sources() -> dict[str, dict[str, str]]:
    """Where the texts come from, by key; the catalogue's own sources are not among them."""
    return table("sources", "source")


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (DATA / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file, strict=True)


def _error(area: str, row: dict[str, str]) -> KnownError:
    return KnownError(
        code=row["code"],
        area=area,
        severity=Severity(row["severity"]),
        depth=cast("Depth", row["depth"]),
        clues=_clues(row),
        pattern=row["pattern"],
        near=row["near"],
        also=row["also"],
        when=row["when"],
        caused_by=tuple(row["caused_by"].split()),
        needs=tuple(row["needs"].split()),
        cause=row["cause"],
        remedy=row["remedy"],
        evidence=row["evidence"],
        source=row["source"],
        as_of=row["as_of"],
    )


def _clues(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row["clues"].split(" || "))
