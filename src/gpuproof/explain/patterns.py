"""Reads the tables in `data/*.csv`: known errors, facts that logs contain, and signs of failure."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, cast

from gpuproof.findings import Severity
from gpuproof.util.csv_table import read_rows

DATA = Path(__file__).parent / "data"

AREAS = (
    "driver",
    "containers",
    "distributed",
    "tensorflow",
    "torch",
    "python",
    "hubs",
    "host",
    "sagemaker",
    "serving",
    "sdk",
    "shells",
    "system",
    "trainers",
    "ec2",
)
"""Each area has its own table of known errors."""

Depth = Literal["cause", "symptom", "wrapper"]
When = Literal["", "gpu-expected", "efa-expected", "error-if-failed"]
"""How close to the root an error is: a `symptom` mostly has another cause, a `wrapper` only reports that a child
failed."""


class KnownError(NamedTuple):
    """An error message with its cause and remedy.

    Attributes:
        code: stable; its meaning never changes.
        area: the table that defines it.
        clues: literal texts; lines that contain none of them are skipped.
        pattern: matched against a normalized line; its named groups are used in `cause` and `remedy`.
        near: must also match one of the surrounding lines; empty if the line is sufficient.
        also: its groups are added if a surrounding line matches; may be empty.
        when: `gpu-expected`: an error only if the job should use a GPU. `efa-expected`: only on instance types with EFA,
            unless the job has one host. `error-if-failed`: the last match before a failure counts; a warning unless
            the failure follows from it (see `report.severity_in`). Empty: always.
        caused_by: codes of errors that cause it; `*` for any error closer to the root.
        needs: names of the advice (see `advice/`) that adds details.
        cause, remedy: templates with `{group}`; a `[[…]]` part is left out if one of its groups is empty.
        evidence: `reproduced`, `read-in-source`, `read-in-docs`, `seen-in-logs` or `general-knowledge`.
        source: key in `citations()`.
        as_of: ISO date on which the source was read.
    """

    code: str
    area: str
    severity: Severity
    depth: Depth
    clues: tuple[str, ...]
    pattern: str
    near: str
    also: str
    when: When
    caused_by: tuple[str, ...]
    needs: tuple[str, ...]
    cause: str
    remedy: str
    evidence: str
    source: str
    as_of: str


class LogFact(NamedTuple):
    """A pattern for a fact about the machine that wrote the log, such as its driver version.

    Attributes:
        fact: `driver`, `gpu`, `instance_type`, `hosts`, `ranks`, `region`, `operation`, `torch`, `tensorflow` or `python`.
        pattern: the first group is the value.
    """

    fact: str
    clues: tuple[str, ...]
    pattern: str


class FailureSign(NamedTuple):
    """A pattern for lines that show that something failed, without a known cause."""

    clues: tuple[str, ...]
    pattern: str


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled pattern, cached. Most patterns are never needed, and compiling all of them takes 0.1 s."""
    return re.compile(pattern, re.M)


@cache
def known_errors() -> tuple[KnownError, ...]:
    """All known errors, area by area."""
    return tuple(_error(area, row) for area in AREAS for row in _rows(area))


@cache
def log_facts() -> tuple[LogFact, ...]:
    """All patterns for facts in logs."""
    return tuple(LogFact(row["fact"], _clues(row), row["pattern"]) for row in _rows("facts"))


@cache
def failure_signs() -> tuple[FailureSign, ...]:
    """All patterns for lines that show a failure."""
    return tuple(FailureSign(_clues(row), row["pattern"]) for row in _rows("signs"))


@cache
def data_table(name: str, key: str) -> dict[str, dict[str, str]]:
    """The rows of a table in the data folder, such as `modules`, indexed by one of its columns."""
    return {row[key]: row for row in _rows(name)}


@cache
def data_rows(name: str) -> tuple[dict[str, str], ...]:
    """The rows of a table in the data folder, in their order."""
    return tuple(_rows(name))


def citations() -> dict[str, dict[str, str]]:
    """The sources of the tables by key, without those of the catalogue."""
    return data_table("sources", "source")


def _rows(name: str) -> list[dict[str, str]]:
    return read_rows(DATA / f"{name}.csv")


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
        when=cast("When", row["when"]),
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
