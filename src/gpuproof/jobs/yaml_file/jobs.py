"""Reads a whole `gpuproof.yaml`: every job, or every problem with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof.errors import InvalidJob, Problem, UsageError
from gpuproof.jobs import kinds
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.validation_errors import (
    FieldProblem,
    InvalidFields,
    KeyPath,
    did_you_mean,
    format_path,
    format_value,
)
from gpuproof.jobs.yaml_file import reader
from gpuproof.jobs.yaml_file.reader import MAX_BYTES, Mark
from gpuproof.jobs.yaml_file.sections import Section, split_sections

_TEXT_KEYS = ("name", "framework_version", "image")
_TEXT_CONTAINERS = ("environment", "tags", "arguments")
"""Keys whose numbers are kept as the text in the file: `framework_version: 2.10` is 2.10 and not 2.1."""


def read_jobs(file: Path) -> dict[str, JobModel]:
    """Reads every job of a file, by key (or by name, if the file is one job); paths are absolute.

    Raises:
        UsageError: the file cannot be read.
        InvalidJob: with every problem of the file, sorted by line.
    """
    try:
        with file.open("rb") as stream:
            document = reader.read(stream.read(MAX_BYTES + 1))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    problems = list(document.problems)
    jobs: dict[str, JobModel] = {}
    if document.data is not None or not problems:
        sections, more = split_sections(document)
        problems += more
        for section in sections:
            job, more = _job(section, file.parent.absolute())
            problems += more
            if job is not None:
                jobs[section.key or job.key] = job
    if problems:
        raise _invalid(file, problems)
    return jobs


def _invalid(file: Path, problems: list[Problem]) -> InvalidJob:
    by_line = {(problem.line or 1, problem.message): problem for problem in problems}
    in_order = [by_line[key] for key in sorted(by_line)]
    lines = [f"{file}:{problem.line}: {problem.message}" for problem in in_order]
    return InvalidJob("\n".join(lines), problems=in_order)


def _job(section: Section, folder: Path) -> tuple[JobModel | None, list[Problem]]:
    """The job with absolute paths, or all of its problems."""
    job, problems = _validate(section, folder)
    return job, [
        Problem(_sentence(problem, section), section.line(problem.path), problem.path) for problem in problems
    ]


def _validate(section: Section, folder: Path) -> tuple[JobModel | None, list[FieldProblem]]:
    kind = section.data.get("kind", kinds.DEFAULT)
    if kind not in tuple(kinds.KINDS):
        *others, last = map(repr, kinds.KINDS)
        near = did_you_mean(str(kind), kinds.KINDS)
        rest = f" must be {', '.join(others)} or {last}, not {format_value(kind)}{near}"
        return None, [FieldProblem(("kind",), "'kind'", rest)]
    data, kept_paths = _keep_number_text(section)
    ambiguous = {
        path: FieldProblem(path, f"'{format_path(path)}'", f": {mark.ambiguity}")
        for path, mark in section.marks.items()
        if mark.ambiguity and path not in kept_paths
    }
    try:
        job = kinds.load_model(kind).model_validate(data).with_absolute_paths(folder)
    except InvalidFields as error:
        others = [problem for problem in error.field_problems if problem.path not in ambiguous]
        return None, [*ambiguous.values(), *others]
    return job, [*ambiguous.values(), *job.missing_files()]


def _sentence(problem: FieldProblem, section: Section) -> str:
    mark = section.marks.get(problem.path)
    sentence = problem.sentence(section.owner(problem.path))
    if mark is None or not mark.plain_text or not problem.needs_text:
        return sentence
    if mark.plain_text.lower() in ("yes", "no", "on", "off"):
        return f"{sentence}, because YAML reads {mark.plain_text} as a boolean: put it in quotes"
    return f"{sentence}: put it in quotes"


def _keep_number_text(section: Section) -> tuple[dict[str, Any], set[KeyPath]]:
    """The data with numbers replaced by their text where text is required, and the paths of these values."""
    kept: set[KeyPath] = set()
    data = dict(section.data)
    for path, mark in section.marks.items():
        if mark.plain_text is None or not _is_number(section.data, path, mark):
            continue
        if len(path) == 1 and path[0] in _TEXT_KEYS:
            data[str(path[0])] = mark.plain_text
            kept.add(path)
        if len(path) == 2 and path[0] in _TEXT_CONTAINERS:
            key, within = str(path[0]), path[1]
            items: Any = data[key]
            if isinstance(items, dict):
                data[key] = {**items, within: mark.plain_text}
            else:
                data[key] = [mark.plain_text if index == within else item for index, item in enumerate(items)]
            kept.add(path)
    return data, kept


def _is_number(data: Any, path: KeyPath, mark: Mark) -> bool:
    if mark.ambiguity is not None:
        return True
    for key in path:
        data = data[key]
    return isinstance(data, int | float) and not isinstance(data, bool)
