"""Changes of names and keywords between major versions of the SageMaker SDK."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from gpuproof.linter.sdk.tables import FOLDER, v2, v3
from gpuproof.util.csv_table import read_rows

State = Literal["gone", "deprecated", "no-op"]
"""An error; works with a warning; has no effect."""


@dataclass(frozen=True)
class SdkChange:
    """A change from sagemaker v1 to v2.

    Args:
        path: the v1 name.
        new: its replacement in v2; empty if there is none.
        state: the effect of using it in v2.
    """

    path: str
    new: str
    state: State


@dataclass(frozen=True)
class RequiredArguments:
    """Arguments without which a v2 call raises ValueError although its signature does not require them.

    Args:
        needs: the argument, or alternatives of which one is enough.
    """

    needs: tuple[str, ...]
    unless: tuple[str, ...]
    message: str


def v1_name(path: str) -> SdkChange | None:
    """The change of a v1 module or name that v2 removed or deprecated."""
    return _names().get(path)


def v1_method(path: str) -> SdkChange | None:
    """The change of a v1 method, by its v2 class and name, also for methods of base classes."""
    owner, _, name = path.rpartition(".")
    for change in _methods():
        base, _, method = change.path.rpartition(".")
        if method == name and v2().is_subclass(owner, base):
            return change
    return None


def v1_parameter(path: str, keyword: str) -> SdkChange | None:
    """The change of a v1 keyword argument of a call, by the name of the call in v2."""
    home = v2().definition(path)
    if found := _parameters().get((home, keyword)):
        return found
    signature = v2().signature(home)
    if signature is None:
        return None
    if keyword in signature.renamed and keyword not in signature.names:
        return SdkChange(home, signature.renamed[keyword], "deprecated")
    return SdkChange(home, "", "no-op") if keyword in signature.dropped else None


def v3_replacement(path: str) -> str | None:
    """The v3 import statement that replaces a v2 module or name; empty without a replacement, None if v2 has no such name.

    Every statement was executed with the v3 release that the tables were read from.
    """
    if v2().has(path) is False:
        return None
    rows = _replacements()
    home = v2().definition(path)
    if path in rows:
        return rows[path][0]
    own = _replacement_above(path)
    if own.endswith(f" import {path.rpartition('.')[2]}") or home == path:
        return own
    return rows[home][0] if home in rows else _replacement_above(home)


def v2_needs(path: str) -> tuple[RequiredArguments, ...]:
    """Arguments that a v2 call requires beyond its signature, including those of base class methods."""
    home = v2().definition(path)
    owner, _, name = home.rpartition(".")
    found: list[RequiredArguments] = []
    if owner.startswith("sagemaker.jumpstart."):
        # JumpStart has a default type and count for each model.
        return ()
    for call, need in _needs():
        base, _, method = call.rpartition(".")
        if call == home or (name.islower() and method == name and v2().is_subclass(owner, base)):
            found.append(need)
    return tuple(found)


def rows_of(table: str) -> list[dict[str, str]]:
    """The rows of one of these CSV files."""
    return read_rows(FOLDER / f"{table}.csv")


@cache
def _names() -> dict[str, SdkChange]:
    return {row["path"]: _change(row) for row in rows_of("changes_v2") if row["kind"] in ("module", "name")}


@cache
def _methods() -> list[SdkChange]:
    return [_change(row) for row in rows_of("changes_v2") if row["kind"] == "method"]


@cache
def _parameters() -> dict[tuple[str, str], SdkChange]:
    rows = (row for row in rows_of("changes_v2") if row["kind"] == "parameter")
    return {(row["path"], row["word"]): _change(row) for row in rows}


@cache
def _replacements() -> dict[str, tuple[str, str]]:
    return {row["path"]: (row["statement"], row["moved_to"]) for row in rows_of("changes_v3")}


@cache
def _needs() -> list[tuple[str, RequiredArguments]]:
    return [
        (
            row["call"],
            RequiredArguments(
                tuple(filter(None, (row["needs"], row["or"]))),
                tuple(row["unless"].split()),
                row["says"],
            ),
        )
        for row in rows_of("needs")
    ]


def _replacement_above(path: str) -> str:
    """The replacement of a name by the rows of its parent modules."""
    rows = _replacements()
    parent, _, name = path.rpartition(".")
    folder = parent
    while parent:
        if parent in rows:
            statement, moved_to = rows[parent]
            target = moved_to or statement.replace("from ", "").replace(" import ", ".")
            if target in v3().modules:
                here = parent == folder and v3().has(f"{target}.{name}")
                return f"from {target} import {name}" if here else ""
            # The replacement of a class does not apply to functions of its module.
            return statement if name[:1].isupper() else ""
        parent = parent.rpartition(".")[0]
    return ""


def _change(row: dict[str, str]) -> SdkChange:
    return SdkChange(row["path"], row["new"], row["state"])  # pyright: ignore[reportArgumentType]
