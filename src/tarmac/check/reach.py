"""How far a script reaches: the project's own modules that it imports, and imports that nobody here can see into."""

from __future__ import annotations

import csv
import sys
from functools import cache
from pathlib import Path

from tarmac.check.module import Module

MOST = 300
"""A script that reaches more modules than this belongs to a library, and no job is judged by all of that."""


def local_modules(script: Module) -> list[Module]:
    """The script and every module of the project that it imports, directly or not; the script first."""
    return script.local_modules


def find_local_modules(script: Module) -> list[Module]:
    """What `local_modules` gives, found anew; at most `MOST` of them."""
    found = [script]
    seen = {script}
    for module in found:
        for name in sorted(module.names.modules | set(module.names.imports.values())):
            other = module.project.sibling(module, name)
            if other is not None and other not in seen and len(found) < MOST:
                seen.add(other)
                found.append(other)
    return found


def unseen_imports(script: Module) -> list[str]:
    """What the script imports that is neither its project's own nor a library known to leave devices alone.

    An import that is not in this list cannot have moved a model to the GPU or started processes behind the script's
    back. One that is in it may have.
    """
    unseen: set[str] = set()
    for module in local_modules(script):
        if module.names.has_star:
            unseen.add("*")
        for name in module.names.modules:
            root = name.partition(".")[0]
            if root in sys.stdlib_module_names or root in quiet_libraries():
                continue
            if module.project.sibling(module, name) is None and not _is_own_package(module, name):
                unseen.add(root or name)
    return sorted(unseen)


@cache
def quiet_libraries() -> frozenset[str]:
    """Libraries that neither move tensors nor start processes for a script, from `data/quiet_libraries.csv`."""
    path = Path(__file__).parent / "data" / "quiet_libraries.csv"
    with path.open(newline="", encoding="utf-8") as file:
        return frozenset(row["import"] for row in csv.DictReader(file))


def _is_own_package(module: Module, name: str) -> bool:
    """`from . import losses`: the package itself is nothing to look into, its members are."""
    prefix = name if name.endswith(".") else name + "."
    members = [one for one in module.names.imports.values() if one.startswith(prefix)]
    return bool(members) and all(module.project.sibling(module, member) is not None for member in members)
