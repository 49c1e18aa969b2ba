"""The jobs that a `gpuproof.yaml` holds, each with the file's `defaults` under it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.errors import Problem
from gpuproof.jobs import validators
from gpuproof.jobs.spec import ProcessingJob, TrainingJob
from gpuproof.jobs.validation_errors import KeyPath, format_value
from gpuproof.jobs.yaml_reader import Document, Mark, has_path

MODELS: dict[str, type[TrainingJob] | type[ProcessingJob]] = {
    "training": TrainingJob,
    "processing": ProcessingJob,
}
"""The model of each `kind`."""

_MERGED = ("hyperparameters", "inputs", "outputs", "environment", "resources", "tags", "sagemaker")
"""Mappings that `defaults` and a job share key by key; any other key of a job replaces the default whole."""


@dataclass(frozen=True)
class Section:
    """One job of a file.

    Args:
        key: what it is called under `jobs`; None where the file is the job.
        data: what it says, defaults included.
        marks: where each value stands.
        from_defaults: the paths whose values come from `defaults`.
    """

    key: str | None
    data: dict[str, Any]
    marks: Mapping[KeyPath, Mark]
    from_defaults: frozenset[KeyPath] = frozenset()

    def owner(self, path: KeyPath) -> str:
        """Who says what stands at a path, as in `job 'train'`; nothing where the file is one nameless job."""
        if path in self.from_defaults:
            return "defaults"
        name = self.key if self.key is not None else self.data.get("name")
        return f"job '{name}'" if name else ""

    def line(self, path: KeyPath) -> int:
        """The line of what stands at a path, or of what it would stand in."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks[path].line


def split_sections(document: Document) -> tuple[list[Section], list[Problem]]:
    """The jobs of a file, and what keeps others from being one."""
    data, marks = document.data, document.marks
    if data is None:
        return [], [Problem("the file is empty: describe a job, at least as entry_point: train.py", line=1)]
    if not isinstance(data, dict):
        text = f"a description is a mapping of keys to values, not {format_value(data)}"
        return [], [Problem(text, line=marks[()].line)]
    if "jobs" not in data and "defaults" not in data:
        return [Section(None, data, marks)], []
    problems = [
        Problem(
            f"unknown key '{key}' beside 'jobs'; move it into a job or 'defaults'", line=marks[(key,)].line
        )
        for key in data
        if key not in ("jobs", "defaults")
    ]
    jobs, defaults = data.get("jobs"), data.get("defaults") or {}
    if not isinstance(defaults, dict):
        problems.append(
            Problem(
                f"'defaults' must be a mapping, not {format_value(defaults)}", line=marks[("defaults",)].line
            )
        )
        defaults = {}
    if not isinstance(jobs, dict) or not jobs:
        line = marks.get(("jobs",), marks[()]).line
        example = "jobs: {train: {entry_point: train.py}}"
        return [], [
            *problems,
            Problem(f"'jobs' must be a mapping of names to jobs, as in {example}", line=line),
        ]
    sections: list[Section] = []
    for key, own in jobs.items():
        if isinstance(own, dict) or own is None:
            sections.append(_with_defaults(key, own or {}, defaults, marks))
        else:
            text = f"job '{key}' must be a mapping, not {format_value(own)}"
            problems.append(Problem(text, line=marks[("jobs", key)].line))
    return sections, problems


def _with_defaults(
    key: str, own: dict[str, Any], defaults: dict[str, Any], all_marks: Mapping[KeyPath, Mark]
) -> Section:
    kind = own.get("kind", defaults.get("kind", "training"))
    useful = {name: value for name, value in defaults.items() if not _only_of_other_kind(name, kind)}
    data = {**useful, **own}
    for name in _MERGED:
        if isinstance(useful.get(name), dict) and isinstance(own.get(name) or {}, dict):
            data[name] = {**useful[name], **(own.get(name) or {})}
    data.setdefault("name", validators.derive_job_name(key))
    marks = _below(all_marks, ("jobs", key))
    inherited = {
        path: mark
        for path, mark in _below(all_marks, ("defaults",)).items()
        if path not in marks and has_path(data, path) and (path[0] not in own or path[0] in _MERGED)
    }
    return Section(key, data, {**inherited, **marks}, frozenset(inherited))


def _only_of_other_kind(key: str, kind: Any) -> bool:
    model = MODELS.get(str(kind), TrainingJob)
    return key not in model.model_fields and any(key in other.model_fields for other in MODELS.values())


def _below(marks: Mapping[KeyPath, Mark], prefix: KeyPath) -> dict[KeyPath, Mark]:
    return {path[len(prefix) :]: mark for path, mark in marks.items() if path[: len(prefix)] == prefix}
