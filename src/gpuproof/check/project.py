"""What is checked together: units, their modules, the jobs, and the questions that rules ask beyond one file."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from gpuproof.check.analysis.argparse_model import CommandLine, command_line
from gpuproof.check.analysis.module import Module
from gpuproof.check.analysis.values import Value
from gpuproof.check.source import python
from gpuproof.check.source.decode import Unreadable, decode, read_bytes
from gpuproof.check.source.span import Unit, absolute

if TYPE_CHECKING:
    from gpuproof.catalogue.catalogue import Catalogue
    from gpuproof.catalogue.model import Instance
    from gpuproof.check.jobs.definition import JobDefinition


MOST_HELD = 3_000_000
"""Characters of source whose models are kept at a time; a model takes some fifty bytes a character."""


T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """What is checked for.

    Args:
        sagemaker_sdk: the SDK's major version; None where nobody says.
        region: where jobs run, for prices and offerings; None where nobody says.
        instance_type: the type that jobs are asked to have instead of their own (`--instance-type`).
    """

    sagemaker_sdk: int | None = None
    region: str | None = None
    instance_type: str | None = None


class Project:
    """Everything that is checked in one go.

    Args:
        units: the texts, by the absolute path that a job can name.
        target: what is checked for.
    """

    def __init__(self, units: Iterable[Unit] = (), target: Target | None = None) -> None:
        self.target = target or Target()
        self.jobs: list[JobDefinition] = []
        self._units: dict[Path, Unit] = {}
        self._modules: dict[Unit, Module | None] = {}
        self._broken: dict[Unit, list[python.Broken]] = {}
        self._lines: dict[Module, CommandLine] = {}
        self._script_folders: list[str] = []
        self._siblings: dict[tuple[str, str], Unit | None] = {}
        self._facts: dict[tuple[str, Unit], Any] = {}
        self._held = 0
        self._listed: dict[str, set[str]] = {}
        for unit in units:
            self._units.setdefault(unit.absolute, unit)

    @cached_property
    def catalogue(self) -> Catalogue:
        """The facts about AWS GPUs; loaded when the first rule asks."""
        from gpuproof.catalogue.catalogue import Catalogue

        return Catalogue.load()

    @property
    def region(self) -> str:
        """The region whose prices are told."""
        return self.target.region or "us-east-1"

    def instance(self, value: Value | str | None) -> Instance | None:
        """The instance type that a value names, known or default; None where it is unknown."""
        name = value.text if isinstance(value, Value) else value
        return self.catalogue.instance(name) if name else None

    def hourly_price(self, name: str, use: str | None = None) -> float | None:
        """USD per hour of one instance; None where nobody knows."""
        found = self.catalogue.price(name, self.region, use)  # pyright: ignore[reportArgumentType]
        return found.usd_per_hour if found is not None else None

    def gpus(self, job: JobDefinition) -> int | None:
        """GPUs of one host of a job; None where its type is unknown."""
        found = self.instance(job.instance_type)
        return found.gpu_count if found is not None else None

    def jobs_running(self, module: Module) -> list[JobDefinition]:
        """The jobs whose script a module is, or whose script imports it."""
        return self._jobs_by_script.get(module.unit.absolute, [])

    def worst_job(self, module: Module) -> JobDefinition | None:
        """Of the jobs that run a module, the one that wastes most: with the most GPUs; None without a job."""
        jobs = self.jobs_running(module)
        return max(
            jobs, key=lambda job: (self.gpus(job) or 0) * int(job.instance_count.number or 1), default=None
        )

    def pins(self, unit: Unit) -> dict[str, str]:
        """What requirements files, pyproject.toml and the notebook's own `pip install` ask for, by normalised name.

        Such as `{"torch": "==2.1.0", "sagemaker": ">=2,<3"}`; the nearest file wins, up to the repository's root.
        """
        from gpuproof.check.knowledge.version_pins import installed_in, pins_above

        folder = unit.absolute.parent
        repository = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), None)
        found = pins_above(folder, repository)
        return {**found, **installed_in(unit.raw)} if unit.raw and "pip" in unit.raw else found

    def link(self, jobs: Iterable[JobDefinition]) -> None:
        """Take over the jobs of the graph, each linked to its script."""
        self.jobs = list(jobs)
        scripts = [job.script for job in self.jobs if job.script is not None]
        self._script_folders = list(dict.fromkeys(str(script.unit.absolute.parent) for script in scripts))
        self._siblings.clear()
        self._facts.clear()
        self.__dict__.pop("_jobs_by_script", None)

    # Modules

    def module(self, unit: Unit) -> Module | None:
        """The model of a unit; None for one that does not parse or is not Python."""
        if unit not in self._modules:
            tree, broken = python.parse(unit)
            self._broken[unit] = broken
            self._modules[unit] = Module(unit, tree, self) if tree is not None else None
            self._held += len(unit.source)
            if self._held > MOST_HELD:
                self._let_go()
        return self._modules[unit]

    def module_if_asked(self, unit: Unit) -> Module:
        """The model of a unit, which is parsed only when somebody asks for more than its text; empty if it cannot be."""
        return self._modules.get(unit) or Module(unit, None, self)

    def broken(self, unit: Unit) -> list[python.Broken]:
        """What of a unit does not parse."""
        if unit not in self._broken:
            self.module(unit)
        return self._broken[unit]

    def forget(self, unit: Unit) -> None:
        """Let go of a unit's model, which can be made again: what no job runs need not stay in memory."""
        if unit in self._modules and unit.absolute not in self._jobs_by_script:
            module = self._modules.pop(unit)
            self._held -= len(unit.source)
            if module is not None:
                self._lines.pop(module, None)
                module.let_go()

    def _let_go(self) -> None:
        """Forget the older half of what nobody is looking at: imports of a large project reach far."""
        for unit in list(self._modules)[: len(self._modules) // 2]:
            self.forget(unit)

    def file(self, path: Path) -> Unit | None:
        """The unit of a path: one that is checked, or else a file on the disk."""
        path = absolute(path)
        if path not in self._units:
            unit = _unit_of(path)
            if unit is None:
                return None
            self._units[path] = unit
        return self._units[path]

    def exists(self, path: Path) -> bool:
        """Whether there is such a file or folder, on the disk or written by a notebook."""
        path = absolute(path)
        return path in self._units or path in self._folders or os.path.lexists(path)

    def sibling(self, module: Module, dotted: str) -> Module | None:
        """The module of this project that an import means: `config`, `.config`, `pkg.config`; None for libraries."""
        unit = self.sibling_unit(module, dotted)
        return self.module(unit) if unit is not None else None

    def sibling_unit(self, module: Module, dotted: str) -> Unit | None:
        """The text of `sibling`."""
        folder = str(module.unit.absolute.parent)
        key = (folder, dotted)
        if key not in self._siblings:
            self._siblings[key] = self._file_of(folder, dotted)
        return self._siblings[key]

    def _file_of(self, folder: str, dotted: str) -> Unit | None:
        level = len(dotted) - len(dotted.lstrip("."))
        for _ in range(level - 1):
            folder = os.path.dirname(folder)  # noqa: PTH120  # strings: this runs for every import of every script
        inner = dotted.strip(".").replace(".", "/")
        # A script's own folder is on its path, whichever module of it imports.
        above = [] if level else [one for one in self._script_folders if _is_below(folder, one)]
        for base in dict.fromkeys([folder, *above]):
            # Most imports are of libraries: one look at the folder tells.
            if inner and inner.partition("/")[0] not in self._entries(base):
                continue
            for candidate in (
                (f"{base}/{inner}.py", f"{base}/{inner}/__init__.py") if inner else (f"{base}/__init__.py",)
            ):
                if (unit := self.file(Path(candidate))) is not None:
                    return unit
        return None

    def _entries(self, folder: str) -> set[str]:
        """What is in a folder, on the disk or written by a notebook, without the ends of names."""
        if folder not in self._listed:
            try:
                listed = {name.partition(".")[0] for name in os.listdir(folder)}  # noqa: PTH208
            except OSError:
                listed = set[str]()
            virtual = {
                path.relative_to(folder).parts[0] for path in self._virtual if path.is_relative_to(folder)
            }
            self._listed[folder] = listed | {name.partition(".")[0] for name in virtual}
        return self._listed[folder]

    @cached_property
    def _virtual(self) -> list[Path]:
        return [path for path, unit in self._units.items() if unit.kind == "cell-file"]

    def once(self, what: str, unit: Unit, make: Callable[[], T]) -> T:
        """What `make` gives for a unit, made the first time that it is asked for.

        Keep facts here, and no models of other units: those are let go of.

        Args:
            what: names the fact.
            unit: what it is about.
            make: finds it.
        """
        key = (what, unit)
        if key not in self._facts:
            self._facts[key] = make()
        return self._facts[key]

    def command_line(self, module: Module) -> CommandLine:
        """What a script takes on its command line."""
        if module not in self._lines:
            self._lines[module] = command_line(module)
        return self._lines[module]

    @cached_property
    def _folders(self) -> set[Path]:
        return {folder for path in self._units for folder in path.parents}

    @cached_property
    def _jobs_by_script(self) -> dict[Path, list[JobDefinition]]:
        from gpuproof.check.analysis.local_imports import local_units

        found: dict[Path, list[JobDefinition]] = defaultdict(list)
        for job in self.jobs:
            for unit in local_units(job.script) if job.script is not None else ():
                if job not in found[unit.absolute]:
                    found[unit.absolute].append(job)
        return found


def _is_below(folder: str, other: str) -> bool:
    return folder == other or folder.startswith(other.rstrip("/") + "/")


def _unit_of(path: Path) -> Unit | None:
    if path.suffix != ".py" or not path.is_file():
        return None
    try:
        text, encoding = decode(read_bytes(path))
    except Unreadable:
        return None
    return Unit(_as_written(path), text, "python", encoding=encoding)


def _as_written(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
