"""The parameters and hooks of trainers by version, from `data/trainers.json` and `data/trainer_replacements.csv`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuproof.util.csv_table import read_rows

_DATA = Path(__file__).parents[2] / "data"

Version = tuple[int, ...]
"""Major, minor and patch version."""
Presence = Literal["yes", "no", "unknown"]


class VersionRange(NamedTuple):
    """The versions of a library that may run a script.

    Attributes:
        low: the oldest; None if it is unknown.
        high: the first that is too new; None if there is no upper bound.
        text: for messages: `transformers 4.57.1`, `transformers>=4.51`.
        assumed: whether no version is written, so that the newest is installed.
    """

    low: Version | None
    high: Version | None
    text: str
    assumed: bool = False


@dataclass(frozen=True)
class Lifetime:
    """When a parameter or method exists.

    Args:
        since: the first version that was read and has it.
        missing_in: the last version before, which was read and lacks it; None if the first version has it.
        last: the last version that was read and has it.
        gone_in: the next version, which was read and lacks it; None if the newest version has it.
    """

    since: Version
    missing_in: Version | None
    last: Version
    gone_in: Version | None

    def presence(self, versions: VersionRange) -> Presence:
        """Whether all of these versions have it, or none."""
        low, high = versions.low, versions.high
        if low is not None and self.gone_in is not None and low >= self.gone_in:
            return "no"
        if high is not None and self.missing_in is not None and high <= self.missing_in:
            return "no"
        starts = self.missing_in is None or (low is not None and low >= self.since)
        ends = self.gone_in is None or (high is not None and high <= _next_patch(self.last))
        return "yes" if starts and ends else "unknown"


@cache
def members(library: str, owner: str) -> dict[str, Lifetime]:
    """The parameters of a class or method, or the methods of a class that users derive from; empty if it is unknown.

    Args:
        library: `lightning`, `transformers`, `trl` or `peft`.
        owner: such as `Trainer` or `Trainer.fit`.
    """
    table = _library(library)
    versions = [version(text) for text in table["versions"]]
    found: dict[str, Any] = table["classes"].get(owner, {"members": {}})
    return {
        name: _lifetime(versions, span or (0, len(versions) - 1)) for name, span in found["members"].items()
    }


@cache
def takes_others(library: str, owner: str) -> bool:
    """Whether a version of a class also takes parameters that are not in the table."""
    return bool(_library(library)["classes"].get(owner, {"open": [0]})["open"])


@cache
def hook_arguments(owner: str) -> dict[str, tuple[str, ...]]:
    """What Lightning 2 passes to the hooks of a class that get a fixed list of arguments, by the name of the hook."""
    found: dict[str, list[str]] = _library("lightning")["classes"].get(owner, {}).get("arguments", {})
    return {hook: tuple(names) for hook, names in found.items()}


def newest(library: str) -> str:
    """The newest version that was read."""
    return _library(library)["versions"][-1]


@cache
def first_version(fact: str) -> str:
    """The first version with a behaviour of `data/trainer_facts.csv`."""
    return next(row["since"] for row in read_rows(_DATA / "trainer_facts.csv") if row["fact"] == fact)


@cache
def replacement(library: str, owner: str, member: str) -> str | None:
    """What replaces a member that was removed, as code or a short instruction; None if nothing does, or it is unknown."""
    rows = read_rows(_DATA / "trainer_replacements.csv")
    return next(
        (
            row["replacement"]
            for row in rows
            if row["library"] == library and row["member"] == member and row["owner"] in (owner, "*")
        ),
        None,
    )


def version(text: str) -> Version:
    """Parse `2.5.0.post0` as (2, 5, 0)."""
    return tuple(int(part) for part in re.findall(r"\d+", text.partition("+")[0])[:3])


def _lifetime(versions: list[Version], span: tuple[int, int]) -> Lifetime:
    first, last = span
    return Lifetime(
        versions[first],
        versions[first - 1] if first else None,
        versions[last],
        versions[last + 1] if last + 1 < len(versions) else None,
    )


def _next_patch(release: Version) -> Version:
    return (*release[:2], 10_000)


@cache
def _library(name: str) -> Any:
    return _tables()["libraries"][name]


@cache
def _tables() -> Any:
    return json.loads((_DATA / "trainers.json").read_bytes())
