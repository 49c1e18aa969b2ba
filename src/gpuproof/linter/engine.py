"""Runs the rules on paths: reads files, links jobs to scripts, checks, drops suppressed findings, sorts."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from gpuproof.errors import UsageError
from gpuproof.findings import Severity
from gpuproof.linter.analysis.local_imports import local_units
from gpuproof.linter.config import CheckSettings
from gpuproof.linter.internal_errors import ErrorLog, InternalError, merged
from gpuproof.linter.jobs.definition import CONTAINERS, INCIDENTAL, JobDefinition
from gpuproof.linter.project import Project, Target
from gpuproof.linter.registry import RuleEntry, Selection
from gpuproof.linter.rule import Hit
from gpuproof.linter.settings_by_file import RuleSet, SettingsByFile
from gpuproof.linter.source.discovery import find_files
from gpuproof.linter.source.project_root import project_folder
from gpuproof.linter.source.read import UnreadableFile, read_units
from gpuproof.linter.source.span import Unit, absolute
from gpuproof.linter.suppression import is_suppressed
from gpuproof.linter.unit_checker import UnitChecker
from gpuproof.util.humanize import pluralize

COLLECT_EVERY = 20_000_000
"""Characters of source checked between two garbage collections: rules may leave models in reference cycles."""


@dataclass(frozen=True)
class CheckOptions:
    """Options of a check.

    Args:
        settings: the settings of the first path. Files with a nearer pyproject.toml have its settings.
        markdown: whether to check code blocks in Markdown files.
        texts: unsaved texts of an editor, by absolute path, in place of the files' content.
    """

    selection: Selection = field(default_factory=Selection)
    target: Target = field(default_factory=Target)
    settings: CheckSettings = field(default_factory=CheckSettings)
    markdown: bool = False
    texts: Mapping[Path, str] = field(default_factory=dict[Path, str])


@dataclass(frozen=True)
class CheckReport:
    """The result of a check.

    Args:
        hits: the findings, sorted by location and code, without duplicates.
        paths: the files that were checked, with the scripts that jobs of the named ones run.
        problems: invalid settings of folders below the paths; their files were checked with the default settings.
        unsupported: named files whose type is not checked, such as a shell script.
        planned: the number of jobs whose scripts were traced, or tried (`--plan`).
        known: the number of findings that a baseline contains, which `hits` does not have.
        gone: the number of entries of the baseline for which there is no finding any more.
    """

    hits: tuple[Hit, ...]
    paths: tuple[str, ...]
    rules: tuple[RuleEntry, ...]
    internal_errors: tuple[InternalError, ...] = ()
    problems: tuple[UsageError, ...] = ()
    unsupported: tuple[str, ...] = ()
    planned: int = 0
    known: int = 0
    gone: int = 0

    @property
    def files(self) -> int:
        """The number of files."""
        return len(self.paths)

    @property
    def failed(self) -> bool:
        """Whether there are errors or warnings; notes do not count."""
        return any(hit.finding.severity is not Severity.NOTE for hit in self.hits)


def check_paths(paths: Sequence[str], options: CheckOptions | None = None) -> CheckReport:
    """Check files and folders.

    Args:
        paths: files and folders, as the user wrote them.
        options: the options; the defaults if None.

    Raises:
        UsageError: a path does not exist, or a selected rule is unknown.
    """
    options = options or CheckOptions()
    by_file = SettingsByFile(options.settings, options.selection, options.target)
    settings, log = options.settings, ErrorLog()
    found = find_files(paths, markdown=True, exclude=settings.exclude, root=settings.folder)
    files = by_file.included(found.files, paths, markdown=options.markdown)
    with _garbage_collection_disabled():
        units, failures = read_units(files, log, options.texts)
        failures += [
            UnreadableFile(path, f"the folder cannot be listed: {reason}") for path, reason in found.unlisted
        ]
        unsupported = tuple(failure.path for failure in failures if not failure.is_source)
        failures = [failure for failure in failures if failure.is_source]
        project = Project(units, options.target)
        jobs = _without_incidental(_jobs(project, units, log), paths)
        linked = _linked_units(project, units, jobs, by_file, log)
        hits = [
            *_unreadable_file_hits(failures, by_file, log),
            *check_project(project, [*units, *linked], by_file, log, jobs=jobs),
        ]
    kept = sorted_hits(hit for hit in hits if by_file.keeps(hit))
    rules = {rule.code: rule for set_ in by_file.rule_sets() for rule in set_.rules}
    return CheckReport(
        tuple(kept),
        tuple(
            dict.fromkeys(
                [*(path for path in files if path not in unsupported), *(unit.path for unit in linked)]
            )
        ),
        tuple(rules[code] for code in sorted(rules)),
        tuple(merged(log.errors)),
        tuple(by_file.problems),
        unsupported,
        len(project.memory.tried),
    )


def check_project(
    project: Project,
    units: Sequence[Unit],
    by_file: SettingsByFile,
    log: ErrorLog,
    jobs: Sequence[JobDefinition] | None = None,
) -> list[Hit]:
    """Check units that are already read; the findings are in no particular order.

    Args:
        jobs: the jobs; None to find them in the units.
    """
    project.link(_jobs(project, units, log) if jobs is None else jobs, log)
    checkers: dict[RuleSet, UnitChecker] = {}

    def checker_of(unit: Unit) -> UnitChecker:
        rule_set = by_file.of(unit.path)
        if rule_set not in checkers:
            checkers[rule_set] = UnitChecker(project.with_target(rule_set.target), rule_set.rules)
        return checkers[rule_set]

    hits: list[Hit] = []
    checked = 0
    for unit in units:
        hits += [hit for hit in checker_of(unit).check(unit, log) if not _is_suppressed(hit, log)]
        checked += len(unit.source)
        if checked > COLLECT_EVERY:
            gc.collect()
            checked = 0
    return hits


def sorted_hits(hits: Iterable[Hit]) -> list[Hit]:
    """The findings without duplicates, sorted by location and code."""
    unique = {_sort_key(hit): hit for hit in hits}
    return once_per_project([unique[key] for key in sorted(unique)])


@contextmanager
def _garbage_collection_disabled() -> Generator[None]:
    """Disable the garbage collector, which would traverse every syntax tree repeatedly: a third of the run time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _linked_units(
    project: Project, units: Sequence[Unit], jobs: list[JobDefinition], by_file: SettingsByFile, log: ErrorLog
) -> list[Unit]:
    """The scripts that the jobs run and the modules that those import, without the units that are checked anyway.

    What a script launches is found too; its jobs are added to `jobs`.
    """
    from gpuproof.linter.jobs.link import (
        find_jobs,  # `gpuproof run` has its job, and starts faster without it
    )

    seen = {unit.absolute for unit in units}
    found: list[Unit] = []
    pending = list(jobs)
    while pending:
        scripts = {
            job.script_unit: job.script
            for job in pending
            if job.script_unit is not None and job.source != "remote"
        }
        new: list[Unit] = []
        for unit, script in scripts.items():
            reached = (
                log.guard(partial(local_units, script), script.path, task="finding imported modules")
                if script is not None
                else (unit,)
            )
            for imported in reached:
                if imported.absolute not in seen and by_file.included([imported.path], (), markdown=False):
                    seen.add(imported.absolute)
                    new.append(imported)
        pending = find_jobs(new, project.workspace, log, project.target.instance_type)
        found += new
        jobs += pending
    return found


def _jobs(project: Project, units: Sequence[Unit], log: ErrorLog) -> list[JobDefinition]:
    from gpuproof.linter.jobs.link import assumed_job, find_jobs  # `gpuproof run` starts faster without it

    instance_type = project.target.instance_type
    jobs = find_jobs(units, project.workspace, log, instance_type)
    if instance_type is None:
        return jobs
    scripts = {job.script.unit for job in jobs if job.script is not None}
    launchers = {job.span.unit for job in jobs}
    others = [unit for unit in units if unit not in scripts and unit not in launchers]
    assumed = [
        job for unit in others if (job := assumed_job(unit, project.workspace, instance_type)) is not None
    ]
    ran = [job.script for job in (*jobs, *assumed) if job.script is not None]
    imported = {unit for script in ran for unit in local_units(script)[1:] if "__main__" not in unit.source}
    return jobs + [job for job in assumed if job.span.unit not in imported]


def _without_incidental(jobs: Sequence[JobDefinition], paths: Sequence[str]) -> list[JobDefinition]:
    """The jobs without those of shell scripts, Makefiles and the like that a folder happens to contain.

    Such a file is a job if the user names it, or if it starts a script that no other job runs.
    """
    named = {absolute(path) for path in paths}
    described = {job.script_unit for job in jobs if job.source not in INCIDENTAL}
    kept: list[JobDefinition] = []
    for job in jobs:
        if job.source not in INCIDENTAL or job.span.unit.absolute in named:
            kept.append(job)
        elif job.source in CONTAINERS or (job.script_unit is not None and job.script_unit not in described):
            kept.append(replace(job, link_end=None))
    return kept


def _is_suppressed(hit: Hit, log: ErrorLog) -> bool:
    try:
        return is_suppressed(hit)
    except Exception as error:  # noqa: BLE001  # a bug here must not lose the other findings
        log.add(error, hit.span.unit.path, task="reading the comments that suppress findings")
        return False


def _unreadable_file_hits(
    failures: Iterable[UnreadableFile], by_file: SettingsByFile, log: ErrorLog
) -> Iterator[Hit]:
    for failure in failures:
        rule = next((rule for rule in by_file.of(failure.path).rules if rule.code == "E901"), None)
        if rule is None:
            continue
        yield from log.guard(partial(_unreadable, rule, failure), failure.path, rule=rule.code)


def _unreadable(rule: RuleEntry, failure: UnreadableFile) -> Iterator[Hit]:
    span = Unit(failure.path, "", "python").span(failure.line)
    severity = rule.severity if failure.broken else Severity.NOTE
    message = f"{Path(failure.path).name} is not checked: {failure.reason}."
    yield rule.rule.hit(span, message, severity=severity)


def _sort_key(hit: Hit) -> tuple[str, int, int, int, str, str]:
    location = hit.finding.location
    assert location is not None
    position = (location.file or "", hit.cell or 0, location.line or 0, location.column or 0)
    return (*position, hit.code, hit.finding.message)


def once_per_project(hits: Sequence[Hit]) -> list[Hit]:
    """The findings without repetitions of `per_project` findings; the first of them says in how many files more it is.

    Which files are one project does not depend on the folder that is checked.

    Args:
        hits: sorted.
    """
    groups: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits:
        if hit.per_project:
            root = project_folder(str(hit.span.unit.absolute.parent))
            groups.setdefault((hit.code, root), []).append(hit)
    if not groups:
        return list(hits)
    first = {id(group[0]): _with_count(group) for group in groups.values()}
    return [first.get(id(hit), hit) for hit in hits if not hit.per_project or id(hit) in first]


def _with_count(group: list[Hit]) -> Hit:
    others = len({hit.span.unit.path for hit in group}) - 1
    if not others:
        return group[0]
    finding = group[0].finding
    verb = "has" if others == 1 else "have"
    message = f"{finding.message} {pluralize(others, 'more file')} {verb} the same problem."
    return replace(group[0], finding=replace(finding, message=message))
