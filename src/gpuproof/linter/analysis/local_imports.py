"""The modules of the project that a script imports, directly or not, and imports that cannot be analysed."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from gpuproof.linter.analysis.module import Module, ModuleLoader
from gpuproof.linter.source.span import Unit
from gpuproof.linter.source.test_files import is_test_file
from gpuproof.util.csv_table import read_rows

MAX_MODULES = 50
"""A script that imports more modules than this belongs to a library; the others are not analysed."""
MAX_IMPORTERS = 16
"""Modules that import a module, directly or not, and are searched for its callers."""


def local_modules(script: Module) -> list[Module]:
    """The script and the project's modules that it imports, directly or not; the script first, `MAX_MODULES` at most."""
    return [script, *map(script.loader.lazy_module, local_units(script)[1:])]


def local_units(script: Module) -> tuple[Unit, ...]:
    """The units of `local_modules`; cheaper if only the texts are needed."""
    loader = script.loader

    def reached() -> tuple[Unit, ...]:
        found = [script.unit]
        for unit in found:
            for other in imported_units(loader, unit):
                if other not in found and len(found) < MAX_MODULES:
                    found.append(other)
        return tuple(found)

    return loader.cached("reach", script.unit, reached)


def program_units(module: Module) -> tuple[Unit, ...]:
    """The units of the programs that run a module: itself, what imports it, directly or not, and what those import.

    Tests are no programs. The module comes first. With more than `MAX_MODULES` units, only the importers are included.
    """
    loader = module.loader

    def found() -> tuple[Unit, ...]:
        users = [module.unit]
        for unit in users:
            for other in loader.importers(unit):
                if other not in users and len(users) <= MAX_IMPORTERS and not is_test_file(other):
                    users.append(other)
        units = dict.fromkeys(users)
        for user in users:
            units.update(dict.fromkeys(local_units(loader.lazy_module(user))))
        # A module of a large library: only those that use it.
        return tuple(units) if len(units) <= MAX_MODULES else tuple(users)

    return loader.cached("program", module.unit, found)


def program_modules(module: Module, word: str = "") -> list[Module]:
    """The modules of `program_units` whose text contains a word; those that do not parse are left out."""
    loaded = (
        module if unit is module.unit else module.loader.module(unit)
        for unit in program_units(module)
        if word in unit.source
    )
    return [other for other in loaded if other is not None]


def imported_units(loader: ModuleLoader, unit: Unit) -> tuple[Unit, ...]:
    """The units that a unit imports itself."""
    return loader.cached("imports", unit, lambda: _imported(loader, unit))


def unseen_imports(script: Module) -> list[str]:
    """Imports of the script that are neither modules of the project nor libraries in `quiet_libraries()`.

    Only these imports may move a model to a GPU or start processes without the script's own code doing so.
    """
    if len(local_units(script)) >= MAX_MODULES:
        return ["more modules than are analysed"]
    return script.loader.cached("unseen", script.unit, lambda: _unseen(script))


def star_imports(script: Module) -> list[Module] | None:
    """The project's modules whose names the script gets by `from x import *`, directly or not.

    None if one of these modules is neither of the project nor of Python's library or `quiet_libraries()`.
    """
    found = [script]
    for module in found:
        for name in module.names.stars:
            other = module.loader.imported_module(module, name)
            if other is None:
                root = name.partition(".")[0]
                if root not in sys.stdlib_module_names and root not in quiet_libraries():
                    return None
            elif other not in found:
                found.append(other)
    return found[1:]


@cache
def quiet_libraries() -> frozenset[str]:
    """Libraries that neither move tensors nor start processes by themselves, from `data/quiet_libraries.csv`."""
    path = Path(__file__).parents[1] / "data" / "quiet_libraries.csv"
    return frozenset(row["import"] for row in read_rows(path))


def _imported(loader: ModuleLoader, unit: Unit) -> tuple[Unit, ...]:
    module = loader.module(unit)
    if module is None:
        return ()
    names = sorted(module.names.modules | set(module.names.imports.values()))
    found = [loader.imported_unit(module, name) for name in names]
    return tuple(dict.fromkeys(match for match in found if match is not None))


def _unseen(script: Module) -> list[str]:
    unseen: set[str] = set()
    for module in local_modules(script):
        if module.names.has_star:
            unseen.add("*")
        for name in module.names.modules:
            root = name.partition(".")[0]
            if root in sys.stdlib_module_names or root in quiet_libraries():
                continue
            if module.loader.imported_unit(module, name) is None and not _is_own_package(module, name):
                unseen.add(root or name)
    return sorted(unseen)


def _is_own_package(module: Module, name: str) -> bool:
    """Whether an import is of the script's own package (`from . import losses`), whose members are modules."""
    prefix = name if name.endswith(".") else name + "."
    members = [import_ for import_ in module.names.imports.values() if import_.startswith(prefix)]
    return bool(members) and all(
        module.loader.imported_unit(module, member) is not None for member in members
    )
