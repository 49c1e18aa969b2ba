"""Packages of PyPI that compute on the CPU only, although others of nearly the same name use a GPU."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.util.csv_table import read_rows

_TABLE = Path(__file__).parents[2] / "data" / "cpu_packages.csv"


class CpuPackage(NamedTuple):
    """A package without code for GPUs.

    Attributes:
        extra: a pattern of the extra with which it has that code; empty if none does.
        use: a word of the scripts that need a GPU; empty if any use of the package is for GPUs in an image for GPUs.
        instead: what to install.
    """

    name: str
    extra: str
    use: str
    instead: str


def cpu_package(
    name: str, extras: str, installed: frozenset[str], scripts: list[Module]
) -> CpuPackage | None:
    """The row of a package that leaves a GPU idle; None for others.

    Args:
        installed: the names of all packages of the image, of which one may bring the code for GPUs.
        scripts: the scripts that run in the image.
    """
    row = _rows().get(name)
    if row is None or (row.extra and re.search(row.extra, extras)):
        return None
    plain = re.sub(r"\[.*", "", row.instead)
    if (plain != name and plain in installed) or any(other.startswith(f"{name}-cuda") for other in installed):
        return None
    if row.use and not any(
        uses(module, re.compile(row.use), "string", "name", "call")
        for script in scripts
        for module in local_modules(script)
    ):
        return None
    return row


@cache
def _rows() -> dict[str, CpuPackage]:
    rows = read_rows(_TABLE)
    return {
        row["package"]: CpuPackage(row["package"], row["needs_extra"], row["use"], row["instead"])
        for row in rows
    }
