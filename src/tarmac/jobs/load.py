"""Reading jobs: from `tarmac.yaml`, from a folder that has one, or from a bare script."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tarmac.errors import InvalidJob, UsageError
from tarmac.jobs import rules, yamltext
from tarmac.jobs.anchor import anchor
from tarmac.jobs.problems import InvalidDescription, KeyPath, Problem, did_you_mean, dotted, shown
from tarmac.jobs.spec import Job, ProcessingJob, TrainingJob
from tarmac.jobs.yamltext import MAX_BYTES, Document, Fault, Mark, leads

FILE_NAMES = ("tarmac.yaml", "tarmac.yml")

_MODELS: dict[str, type[TrainingJob] | type[ProcessingJob]] = {
    "training": TrainingJob,
    "processing": ProcessingJob,
}
_MERGED = ("hyperparameters", "inputs", "outputs", "environment", "resources", "tags")
"""Mappings that `defaults` and a job share key by key; any other key of a job replaces the default whole."""
_AS_WRITTEN = ("name", "framework_version", "image")
_AS_WRITTEN_BELOW = ("environment", "tags", "arguments")
"""Where a number is text as it was written: `framework_version: 2.10` is 2.10 and not 2.1."""


def load(path: Path, name: str | None = None) -> Job:
    """One job, with absolute paths.

    Args:
        path: a `tarmac.yaml`, a folder that has one, or a script.
        name: which of the file's jobs; may be left out where there is one.

    Raises:
        UsageError: there is no such file or no such job, or the name is missing.
        InvalidJob: the description is wrong; each line of the message names file, line and key.
    """
    if _is_script(path):
        if name:
            raise UsageError(f"'{name}' would choose a job of a tarmac.yaml, and {path} is a script")
        return _job_of_script(path)
    jobs = load_jobs(path)
    if name is None and len(jobs) == 1:
        return next(iter(jobs.values()))
    if name is None:
        raise UsageError(
            f"{path} has several jobs: {', '.join(jobs)}", f"name one, as in: {path} {next(iter(jobs))}"
        )
    if name not in jobs:
        near = did_you_mean(name, jobs)
        raise UsageError(f"{path} has no job '{name}'{near}", f"its jobs are: {', '.join(jobs)}")
    return jobs[name]


def load_jobs(path: Path) -> dict[str, Job]:
    """Every job of a `tarmac.yaml`, by its key (or its name, where the file is one job), with absolute paths.

    Raises:
        UsageError: there is no such file.
        InvalidJob: one message with every problem of the file, sorted by line.
    """
    file = _description_file(path)
    try:
        with file.open("rb") as stream:
            document = yamltext.read(stream.read(MAX_BYTES + 1))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    faults = list(document.faults)
    jobs: dict[str, Job] = {}
    for section in [] if faults and document.data is None else _sections(document, faults):
        job = _validate(section, file.parent.absolute(), faults)
        if job is not None:
            jobs[section.key or job.name] = job
    if faults:
        lines = sorted({(fault.line, fault.text) for fault in faults})
        raise InvalidJob("\n".join(f"{file}:{line}: {text}" for line, text in lines))
    return jobs


@dataclass(frozen=True)
class _Section:
    """One job of a file: its key (None where the file is the job), its data, and where each value stands."""

    key: str | None
    data: dict[str, Any]
    marks: Mapping[KeyPath, Mark]
    from_defaults: frozenset[KeyPath]

    @property
    def owner(self) -> str:
        name = self.key if self.key is not None else self.data.get("name")
        return f"job '{name}'" if name else ""

    def line(self, path: KeyPath) -> int:
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks[path].line


def _is_script(path: Path) -> bool:
    return not _is_folder(path) and path.suffix not in (".yaml", ".yml")


def _job_of_script(path: Path) -> Job:
    if not _is_file(path):
        raise UsageError(f"{path} does not exist{_near_file(path)}")
    if path.suffix == ".ipynb":
        raise UsageError(f"{path} is a notebook", f"make it a script: jupyter nbconvert --to script '{path}'")
    script = path.absolute()
    return TrainingJob(entry_point=script.name, source_dir=str(script.parent))


def _description_file(path: Path) -> Path:
    if not _is_folder(path):
        if _is_file(path):
            return path
        raise UsageError(f"{path} does not exist{_near_file(path)}")
    for file_name in FILE_NAMES:
        if _is_file(path / file_name):
            return path / file_name
    raise UsageError(f"there is no {FILE_NAMES[0]} in {path}", "name a script: tarmac run train.py")


def _near_file(path: Path) -> str:
    try:
        names = [entry.name for entry in path.parent.iterdir() if _is_file(entry)]
    except OSError:
        return ""
    return did_you_mean(path.name, names)


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - a name too long for the disk is no file, and no error


def _is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - as above


def _sections(document: Document, faults: list[Fault]) -> list[_Section]:
    data = document.data
    if data is None:
        faults.append(Fault(1, "the file is empty: describe a job, at least as entry_point: train.py"))
        return []
    if not isinstance(data, dict):
        faults.append(
            Fault(document.marks[()].line, f"a description is a mapping of keys to values, not {shown(data)}")
        )
        return []
    if "jobs" not in data and "defaults" not in data:
        return [_Section(None, data, document.marks, frozenset())]
    faults.extend(
        Fault(
            document.marks[(key,)].line,
            f"unknown key '{key}' beside 'jobs'; move it into a job or 'defaults'",
        )
        for key in data
        if key not in ("jobs", "defaults")
    )
    jobs, defaults = data.get("jobs"), data.get("defaults") or {}
    if not isinstance(defaults, dict):
        faults.append(
            Fault(document.marks[("defaults",)].line, f"'defaults' must be a mapping, not {shown(defaults)}")
        )
        defaults = {}
    if not isinstance(jobs, dict) or not jobs:
        line = document.marks.get(("jobs",), document.marks[()]).line
        faults.append(
            Fault(
                line,
                "'jobs' must be a mapping of names to jobs, as in jobs: {train: {entry_point: train.py}}",
            )
        )
        return []
    return [
        section for key in jobs if (section := _named_section(key, jobs[key], defaults, document, faults))
    ]


def _named_section(
    key: str, own: Any, defaults: dict[str, Any], document: Document, faults: list[Fault]
) -> _Section | None:
    """A job under `jobs`, with `defaults` under it."""
    own = {} if own is None else own
    if not isinstance(own, dict):
        faults.append(
            Fault(document.marks[("jobs", key)].line, f"job '{key}' must be a mapping, not {shown(own)}")
        )
        return None
    kind = own.get("kind", defaults.get("kind", "training"))
    useful = {name: value for name, value in defaults.items() if not _only_of_other_kind(name, kind)}
    data = {**useful, **own}
    for name in _MERGED:
        if isinstance(useful.get(name), dict) and isinstance(own.get(name) or {}, dict):
            data[name] = {**useful[name], **(own.get(name) or {})}
    data.setdefault("name", rules.name_from(key))
    marks = _below(document.marks, ("jobs", key))
    inherited = {
        path: mark
        for path, mark in _below(document.marks, ("defaults",)).items()
        if path not in marks and leads(data, path) and (path[0] not in own or path[0] in _MERGED)
    }
    return _Section(key, data, {**inherited, **marks}, frozenset(inherited))


def _below(marks: Mapping[KeyPath, Mark], prefix: KeyPath) -> dict[KeyPath, Mark]:
    return {path[len(prefix) :]: mark for path, mark in marks.items() if path[: len(prefix)] == prefix}


def _only_of_other_kind(key: str, kind: Any) -> bool:
    model = _MODELS.get(str(kind), TrainingJob)
    return key not in model.model_fields and any(key in other.model_fields for other in _MODELS.values())


def _validate(section: _Section, folder: Path, faults: list[Fault]) -> Job | None:
    """The job, its paths absolute, or None where something is wrong with it."""
    before = len(faults)
    kind = section.data.get("kind", "training")
    if kind not in tuple(_MODELS):
        near = did_you_mean(str(kind), _MODELS)
        problem = Problem(
            ("kind",), "'kind'", f" must be 'training' or 'processing', not {shown(kind)}{near}"
        )
        faults.append(Fault(section.line(problem.path), _sentence(problem, section)))
        return None
    data, as_written = _as_written(section)
    surprises = {
        path: Problem(path, f"'{dotted(path)}'", f": {mark.surprise}")
        for path, mark in section.marks.items()
        if mark.surprise and path not in as_written
    }
    problems = list(surprises.values())
    try:
        job = anchor(_MODELS[kind].model_validate(data), folder)
        problems += _missing_files(job)
    except InvalidDescription as error:
        job = None
        problems += [problem for problem in error.problems if problem.path not in surprises]
    faults.extend(Fault(section.line(problem.path), _sentence(problem, section)) for problem in problems)
    return job if len(faults) == before else None


def _missing_files(job: Job) -> list[Problem]:
    """What the job cannot start without; its data is looked for later, since flags may name other data."""
    source = Path(job.source_dir)
    if not _is_folder(source):
        return [Problem(("source_dir",), "'source_dir'", f": there is no folder {source}")]
    script = source / job.entry_point
    if _is_file(script):
        return []
    near = _near_file(script)
    return [
        Problem(("entry_point",), "'entry_point'", f": there is no file {job.entry_point} in {source}{near}")
    ]


def _sentence(problem: Problem, section: _Section) -> str:
    owner = "defaults" if problem.path in section.from_defaults else section.owner
    mark = section.marks.get(problem.path)
    sentence = problem.sentence(owner)
    if mark is None or not mark.written or "must be text" not in sentence or "not nothing" in sentence:
        return sentence
    if mark.written.lower() in ("yes", "no", "on", "off"):
        return f"{sentence}, which is what YAML makes of {mark.written}: put it in quotes"
    return f"{sentence}: put it in quotes"


def _as_written(section: _Section) -> tuple[dict[str, Any], set[KeyPath]]:
    """The data with numbers as text where text is wanted, and the paths where that was done."""
    kept: set[KeyPath] = set()
    data = dict(section.data)
    for path, mark in section.marks.items():
        if mark.written is None or not _is_number(section.data, path, mark):
            continue
        if len(path) == 1 and path[0] in _AS_WRITTEN:
            data[str(path[0])] = mark.written
            kept.add(path)
        if len(path) == 2 and path[0] in _AS_WRITTEN_BELOW:
            key, within = str(path[0]), path[1]
            items: Any = data[key]
            if isinstance(items, dict):
                data[key] = {**items, within: mark.written}
            else:
                data[key] = [mark.written if index == within else item for index, item in enumerate(items)]
            kept.add(path)
    return data, kept


def _is_number(data: Any, path: KeyPath, mark: Mark) -> bool:
    if mark.surprise is not None:
        return True
    for key in path:
        data = data[key]
    return isinstance(data, int | float) and not isinstance(data, bool)
