"""Runs the rules over paths: read, build the job graph, look, drop what is silenced, sort."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpuproof.check.config import CheckSettings
from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.jobs.link import jobs_of, what_if
from gpuproof.check.project import Project, Target
from gpuproof.check.registry import Selection, selected_rules
from gpuproof.check.rule import Hit, Rule
from gpuproof.check.source.discovery import find_files
from gpuproof.check.source.read import Failure, read_units
from gpuproof.check.source.span import Unit
from gpuproof.check.suppression import is_suppressed
from gpuproof.check.unit_check import Looker
from gpuproof.findings import Severity

COLLECT_EVERY = 20_000_000
"""Characters looked at between two collections of garbage: a rule's own may hold models in circles."""


@dataclass(frozen=True)
class Options:
    """How to check.

    Args:
        selection: which rules.
        target: for which SDK, region, instance.
        settings: what the project has settled: files that are left out, and rules for some files.
        markdown: whether fenced blocks of Markdown files are read too.
        processes: how many at a time; 0 for as many as pay.
    """

    selection: Selection = field(default_factory=Selection)
    target: Target = field(default_factory=Target)
    settings: CheckSettings = field(default_factory=CheckSettings)
    markdown: bool = False
    processes: int = 1


@dataclass(frozen=True)
class Report:
    """What was found.

    Args:
        hits: sorted by file, place and code, each once.
        files: how many files were read.
        rules: the rules that looked.
    """

    hits: tuple[Hit, ...]
    files: int
    rules: tuple[Rule, ...]

    @property
    def failed(self) -> bool:
        """Whether anything needs to be done: a note alone does not."""
        return any(hit.finding.severity is not Severity.NOTE for hit in self.hits)


def check_paths(paths: Sequence[str], options: Options | None = None) -> Report:
    """Check files and folders.

    Args:
        paths: as the user wrote them.
        options: how.

    Raises:
        UsageError: a path does not exist, or no rule goes by a name.
    """
    options = options or Options()
    settings = options.settings
    rules = selected_rules(options.selection)
    found = find_files(paths, markdown=options.markdown, exclude=settings.exclude, root=settings.folder)
    with _collecting_rarely():
        units, failures = read_units(found.files)
        failures += [
            Failure(path, f"the folder cannot be listed: {reason}") for path, reason in found.unlisted
        ]
        project = Project(units, options.target)
        hits = [
            *_unreadable(failures, rules),
            *check_project(project, units, rules, processes=options.processes),
        ]
    kept = [hit for hit in hits if not settings.ignores(hit)]
    return Report(tuple(sorted_hits(kept)), len(found.files), tuple(rules))


def check_project(
    project: Project,
    units: Sequence[Unit],
    rules: Sequence[Rule],
    jobs: Sequence[JobDefinition] | None = None,
    processes: int = 1,
) -> Iterator[Hit]:
    """The findings of units that are already read, in no particular order.

    Args:
        project: the units, and what is checked for.
        units: those to look at.
        rules: those that look.
        jobs: the job graph; None to read it from the units.
        processes: how many at a time; 0 for as many as pay.
    """
    project.link(_jobs(project, units) if jobs is None else jobs)
    looker = Looker(project, rules)

    def look(some: Sequence[Unit]) -> list[Hit]:
        found: list[Hit] = []
        seen = 0
        for unit in some:
            found += [hit for hit in looker.look(unit) if not is_suppressed(hit)]
            seen += len(unit.source)
            if seen > COLLECT_EVERY:
                gc.collect()
                seen = 0
        return found

    from gpuproof.check import process_pool

    number = process_pool.count(processes, len(units))
    return iter(look(units)) if number < 2 else process_pool.look_with(number, units, look)


def sorted_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Each finding once, by file, place and code."""
    unique = {_key(hit): hit for hit in hits}
    return [unique[key] for key in sorted(unique)]


@contextmanager
def _collecting_rarely() -> Generator[None]:
    """Without the collector, which would go through every syntax tree again and again: a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _jobs(project: Project, units: Sequence[Unit]) -> list[JobDefinition]:
    jobs = jobs_of(units, project)
    asked = project.target.instance_type
    if asked is None:
        return jobs
    scripts = {job.script.unit for job in jobs if job.script is not None}
    launchers = {job.span.unit for job in jobs}
    alone = [one for one in units if one not in scripts and one not in launchers]
    return jobs + [job for unit in alone if (job := what_if(unit, project, asked)) is not None]


def _unreadable(failures: Iterable[Failure], rules: Sequence[Rule]) -> Iterator[Hit]:
    rule = next((one for one in rules if one.code == "E901"), None)
    if rule is None:
        return
    for failure in failures:
        unit = Unit(failure.path, "", "python")
        severity = rule.severity if failure.broken else Severity.NOTE
        message = f"{Path(failure.path).name} is not checked: {failure.reason}."
        yield rule.hit(unit.span(failure.line), message, severity=severity)


def _key(hit: Hit) -> tuple[str, int, int, int, str, str]:
    location = hit.finding.location
    assert location is not None
    place = (location.file or "", hit.cell or 0, location.line or 0, location.column or 0)
    return (*place, hit.code, hit.finding.message)
