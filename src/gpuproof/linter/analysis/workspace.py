"""The texts that are checked together: their modules, parsed on demand, and which file an import refers to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from gpuproof.linter.analysis.importers import ImportWords
from gpuproof.linter.analysis.local_imports import imported_units
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.source import python
from gpuproof.linter.source.command_files import command_kind
from gpuproof.linter.source.decode import Unreadable, decode, read_bytes
from gpuproof.linter.source.project_root import project_root
from gpuproof.linter.source.span import Unit, UnitKind, absolute

MAX_CACHED = 6_000_000
"""Characters of source whose models are kept at a time; a model takes about fifty bytes a character."""

MAX_SETTINGS = 200_000
"""Bytes; a larger settings file is data."""
_SHEBANG = re.compile(rb"#!.*\bpython")

T = TypeVar("T")


class Workspace:
    """Units and their modules, by path.

    Args:
        units: the texts, by the absolute path that a job can name.
    """

    def __init__(self, units: Iterable[Unit] = ()) -> None:
        self._units: dict[Path, Unit] = {}
        self._modules: dict[Unit, Module | None] = {}
        self._alive: WeakValueDictionary[Unit, Module] = WeakValueDictionary()
        """Every model that something refers to, so that a unit never has two."""
        self._syntax_errors: dict[Unit, list[python.SyntaxProblem]] = {}
        self._retained: frozenset[Path] = frozenset()
        self._script_folders: list[str] = []
        self._imported: dict[tuple[str, str], Unit | None] = {}
        self._facts: dict[tuple[str, Unit], Any] = {}
        self._job_arguments: dict[Unit, tuple[str | None, ...]] = {}
        self._import_words = ImportWords()
        self._cached = 0
        self._settings: dict[Path, Unit | None] = {}
        self._entries: dict[str, set[str]] = {}
        self._found: dict[tuple[str, tuple[UnitKind, ...]], tuple[int, list[Unit]]] = {}
        for unit in units:
            self._units.setdefault(unit.absolute, unit)

    def module(self, unit: Unit) -> Module | None:
        """The model of a unit; None for one that does not parse or is not Python."""
        if unit not in self._modules:
            module = self._alive.get(unit)
            if module is None:
                tree, errors = python.parse(unit)
                self._syntax_errors[unit] = errors
                if tree is not None:
                    module = self._alive[unit] = Module(unit, tree, self)
            self._modules[unit] = module
            self._cached += len(unit.source)
        return self._modules[unit]

    def lazy_module(self, unit: Unit) -> Module:
        """The model of a unit that is parsed on first use of its syntax; empty if it does not parse."""
        return self._modules.get(unit) or Module(unit, None, self)

    def syntax_errors(self, unit: Unit) -> list[python.SyntaxProblem]:
        """The syntax errors of a unit."""
        if unit not in self._syntax_errors:
            self.module(unit)
        return self._syntax_errors[unit]

    def release(self, unit: Unit) -> None:
        """Drop a unit's model, which can be built again, unless a job runs the unit."""
        if unit in self._modules and unit.absolute not in self._retained:
            module = self._modules.pop(unit)
            self._cached -= len(unit.source)
            if module is not None:
                module.release()

    def trim(self) -> None:
        """Drop the older half of the models if there are too many.

        It is called between units, never while one is analysed: an analysis in progress keeps what it has loaded.
        """
        if self._cached > MAX_CACHED:
            for unit in list(self._modules)[: len(self._modules) // 2]:
                self.release(unit)

    def retain(self, paths: Iterable[Path]) -> None:
        """Keep the models of these files until another call of this method."""
        self._retained = frozenset(paths)

    def set_script_folders(self, folders: Iterable[Path]) -> None:
        """Set the folders of entry points, which Python puts on the import path of every module that they import."""
        self._script_folders = list(dict.fromkeys(map(str, folders)))
        self._imported.clear()
        self._facts.clear()

    def file(self, path: Path) -> Unit | None:
        """The unit of a path: one of the given units, or a file on the disk; None if there is none."""
        path = absolute(path)
        if path not in self._units:
            unit = _unit_of(path)
            if unit is None:
                return None
            self._units[path] = unit
        return self._units[path]

    def text_file(self, path: Path) -> Unit | None:
        """The unit of a shell script, Makefile or Dockerfile; None if there is none, or if it is not text."""
        path = absolute(path)
        if path not in self._units:
            try:
                text = decode(read_bytes(path))[0] if path.is_file() else None
            except Unreadable:
                text = None
            if text is None:
                return None
            self._units[path] = Unit(_as_written(path), text, command_kind(path.name) or "shell")
        return self._units[path]

    def units_of(self, *kinds: UnitKind) -> list[Unit]:
        """The units of some kinds that are known so far."""
        return self.units_with("", *kinds)

    def units_with(self, word: str, *kinds: UnitKind) -> list[Unit]:
        """The units of some kinds that are known so far and whose text contains a word."""
        count, found = self._found.get((word, kinds), (0, []))
        if count != len(self._units):
            found = [unit for unit in self._units.values() if unit.kind in kinds and word in unit.source]
            self._found[word, kinds] = len(self._units), found
        return found

    def settings_file(self, path: Path) -> Unit | None:
        """The unit of a settings file, such as `config.yaml`; None if there is none, or if it is too large."""
        path = absolute(path)
        if path not in self._settings:
            unit = self._units.get(path)
            if unit is None:
                try:
                    is_small = path.is_file() and path.stat().st_size <= MAX_SETTINGS
                    unit = (
                        Unit(_as_written(path), decode(read_bytes(path))[0], "settings") if is_small else None
                    )
                except (Unreadable, OSError):
                    unit = None
            self._settings[path] = unit
        return self._settings[path]

    def exists(self, path: Path) -> bool:
        """Whether a file or folder exists, on the disk or written by a notebook."""
        path = absolute(path)
        return path in self._units or path in self._folders or os.path.lexists(path)

    def imported_module(self, module: Module, dotted: str) -> Module | None:
        """The project's own module that an import refers to: `config`, `.config`, `pkg.config`; None for libraries."""
        unit = self.imported_unit(module, dotted)
        return self.module(unit) if unit is not None else None

    def imported_unit(self, module: Module, dotted: str) -> Unit | None:
        """The unit of `imported_module`."""
        key = (module.unit.folder, dotted)
        if key not in self._imported:
            self._imported[key] = self._find_import(*key)
        return self._imported[key]

    def importers(self, unit: Unit) -> Sequence[Unit]:
        """The units of the project whose imports refer to a unit."""

        def found() -> tuple[Unit, ...]:
            candidates = self._import_words.candidates(unit, self._units.values())
            return tuple(other for other in candidates if unit in imported_units(self, other))

        return self.cached("importers", unit, found)

    def job_arguments(self, unit: Unit) -> Sequence[str | None] | None:
        """The command line with which the only job runs a unit; None if it is unknown or there are several jobs."""
        return self._job_arguments.get(unit)

    def set_job_arguments(self, unit: Unit, words: Sequence[str | None]) -> None:
        """Set the command line with which the only job runs a script: its arguments are then evaluated with it."""
        self._job_arguments[unit] = tuple(words)

    def cached(self, fact: str, unit: Unit, compute: Callable[[], T]) -> T:
        """A fact about a unit, computed at the first request.

        Keep facts here, and no models of other units: those are released.
        """
        key = (fact, unit)
        if key not in self._facts:
            self._facts[key] = compute()
        return self._facts[key]

    def _find_import(self, folder: str, dotted: str) -> Unit | None:
        level = len(dotted) - len(dotted.lstrip("."))
        for _ in range(level - 1):
            folder = os.path.dirname(folder)  # noqa: PTH120  # strings: this runs for every import of every script
        inner = dotted.strip(".").replace(".", "/")
        # The folder of the script is on the import path, whichever of its modules imports.
        above = (
            []
            if level
            else [
                script_folder
                for script_folder in self._script_folders
                if _may_share_imports(folder, script_folder)
            ]
        )
        package = "" if level else self._package_root(folder)
        bases = [folder, *above, *([package] if package else [])]
        for base in dict.fromkeys(bases):
            # Most imports are of libraries, which the names in the folder rule out.
            if inner and inner.partition("/")[0] not in self._names_in(base):
                continue
            for candidate in (
                (f"{base}/{inner}.py", f"{base}/{inner}/__init__.py") if inner else (f"{base}/__init__.py",)
            ):
                if (unit := self.file(Path(candidate))) is not None:
                    return unit
        return None

    def _package_root(self, folder: str) -> str:
        """The folder above the outermost package that a folder belongs to, where `python -m` starts it; empty without one."""
        if "__init__" not in self._names_in(folder):
            return ""
        above = os.path.dirname(folder)  # noqa: PTH120  # as in _find_import
        return (self._package_root(above) or above) if above != folder else ""

    def _names_in(self, folder: str) -> set[str]:
        """The names in a folder, on the disk or written by a notebook, without suffixes."""
        if folder not in self._entries:
            try:
                listed = {name.partition(".")[0] for name in os.listdir(folder)}  # noqa: PTH208
            except OSError:
                listed = set[str]()
            virtual = {
                path.relative_to(folder).parts[0] for path in self._virtual if path.is_relative_to(folder)
            }
            self._entries[folder] = listed | {name.partition(".")[0] for name in virtual}
        return self._entries[folder]

    @cached_property
    def _virtual(self) -> list[Path]:
        return [path for path, unit in self._units.items() if unit.kind == "cell-file"]

    @cached_property
    def _folders(self) -> set[Path]:
        return {folder for path in self._units for folder in path.parents}


def _may_share_imports(folder: str, script: str) -> bool:
    """Whether a module in a folder may be imported by a script in another one: above it, in the same project."""
    is_below = folder == script or folder.startswith(script.rstrip("/") + "/")
    return is_below and project_root(folder) == project_root(script)


def _unit_of(path: Path) -> Unit | None:
    if path.suffix not in ("", ".py") or not path.is_file():
        return None
    try:
        raw = read_bytes(path)
        # A program without a suffix is Python by its first line: `train` in an image for SageMaker.
        if not path.suffix and not _SHEBANG.match(raw):
            return None
        text, encoding = decode(raw)
    except Unreadable:
        return None
    return Unit(_as_written(path), text, "python", encoding=encoding)


def _as_written(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
