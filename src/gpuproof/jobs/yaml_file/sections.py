"""Splits a `gpuproof.yaml` into its jobs and merges the file's `defaults` into each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.errors import Problem
from gpuproof.jobs import kinds, validators
from gpuproof.jobs.validation_errors import KeyPath, format_value
from gpuproof.jobs.yaml_file.reader import Document, Mark, has_path

_MERGED = ("hyperparameters", "inputs", "outputs", "environment", "resources", "tags", "sagemaker", "ec2")
"""Mappings that are merged key by key; any other key of a job replaces the whole default."""


@dataclass(frozen=True)
class Section:
    """One job of a file.

    Args:
        key: its key under `jobs`; None if the file is one job.
        data: its keys and values, with defaults.
        marks: the position of each value.
        from_defaults: paths of the values that come from `defaults`.
    """

    key: str | None
    data: dict[str, Any]
    marks: Mapping[KeyPath, Mark]
    from_defaults: frozenset[KeyPath] = frozenset()

    def owner(self, path: KeyPath) -> str:
        """What the value at a path belongs to, as in `job 'train'` or `defaults`; empty for a file with one unnamed job."""
        if path in self.from_defaults:
            return "defaults"
        name = self.key if self.key is not None else self.data.get("name")
        return f"job '{name}'" if name else ""

    def line(self, path: KeyPath) -> int:
        """The line of the value at a path, or of the nearest mapping around it."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks[path].line


def split_sections(document: Document) -> tuple[list[Section], list[Problem]]:
    """Returns the jobs of a document, and the problems of those entries that are no jobs."""
    data, marks = document.data, document.marks
    if data is None:
        return [], [Problem("the file is empty: a job needs at least entry_point: train.py", line=1)]
    if not isinstance(data, dict):
        text = f"a job description must be a mapping of keys to values, not {format_value(data)}"
        return [], [Problem(text, line=marks[()].line)]
    if "jobs" not in data and "defaults" not in data:
        return [Section(None, data, marks)], []
    problems = [
        Problem(
            f"unknown key '{key}' next to 'jobs'; move it into a job or 'defaults'", line=marks[(key,)].line
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
    kind = own.get("kind", defaults.get("kind", kinds.DEFAULT))
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
    own = kinds.load_model(str(kind) if kind in tuple(kinds.KINDS) else kinds.DEFAULT)
    if key in own.model_fields:
        return False
    return any(key in other.model_fields for _, other in kinds.load_models())


def _below(marks: Mapping[KeyPath, Mark], prefix: KeyPath) -> dict[KeyPath, Mark]:
    return {path[len(prefix) :]: mark for path, mark in marks.items() if path[: len(prefix)] == prefix}
