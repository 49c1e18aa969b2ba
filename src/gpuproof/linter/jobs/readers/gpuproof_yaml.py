"""Finds jobs in a `gpuproof.yaml`, with the line of each value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.linter.analysis.container_env import PROCESSING_DIR
from gpuproof.linter.analysis.values import ABSENT, Entries, Value, known
from gpuproof.linter.jobs.definition import JobDefinition, Kind, ProcessingMount
from gpuproof.linter.source.span import Span, Unit

if TYPE_CHECKING:
    from gpuproof.jobs.yaml_file.sections import Section


_CHECKED: Mapping[str, Kind] = {
    "training": "training",
    "processing": "processing",
    "endpoint": "endpoint",
    "notebook": "notebook",
}
"""The kinds of job that rules can read, and what they are for the catalogue."""


def jobs(unit: Unit) -> Iterator[JobDefinition]:
    """The jobs of a `gpuproof.yaml`; empty if it does not describe any."""
    from gpuproof.jobs.yaml_file import reader, sections  # imports pydantic and yaml

    found, _ = sections.split_sections(reader.read(unit.source.encode()))
    for section in found:
        kind = _CHECKED.get(str(section.data.get("kind", "training")))
        if kind is not None:
            yield _job(section, unit, kind)


def problems(unit: Unit) -> list[tuple[int, str]]:
    """The errors that `gpuproof run` would report for a `gpuproof.yaml`: line and message."""
    from gpuproof.errors import GPUproofError, InvalidJob
    from gpuproof.jobs.load import load_jobs

    try:
        load_jobs(Path(unit.path))
    except InvalidJob as error:
        return [(problem.line or 1, problem.message) for problem in error.problems]
    except GPUproofError as error:
        return [(1, error.message)]
    return []


def _job(section: Section, unit: Unit, kind: Kind) -> JobDefinition:
    value = _value(section, unit, (), section.data)
    channels = {str(name): part for name, part in value.at("inputs").parts.items()}
    arguments = {str(key): part for key, part in value.parts.items()}
    return JobDefinition(
        kind=kind,
        source="gpuproof",
        api=f"job {section.data.get('name') or section.key or 'train'}",
        span=_span(section, unit, ()),
        instance_type=value.at("instance_type"),
        instance_count=value.at("instance_count"),
        framework=value.at("framework").text,
        framework_version=value.at("framework_version"),
        image=value.at("image"),
        distribution=value.at("distribution"),
        hyperparameters=value.at("hyperparameters"),
        environment=value.at("environment"),
        entry_point=value.at("entry_point"),
        source_dir=value.at("source_dir"),
        channels=channels if kind == "training" else {},
        channels_known=kind == "training",
        inputs=_mounts(value.at("inputs"), "source", "input") if kind == "processing" else None,
        outputs=_mounts(value.at("outputs"), "destination", "output") if kind == "processing" else None,
        container_arguments=value.at("arguments"),
        arguments=arguments,
    )


def _mounts(mounts: Value, place: str, folder: str) -> tuple[ProcessingMount, ...]:
    """The folders of a processing job, whose short form `name: address` is below /opt/ml/processing."""
    found: list[ProcessingMount] = []
    for name, item in mounts.parts.items():
        path = str(name) if "/" in str(name) else f"{PROCESSING_DIR}/{folder}/{name}"
        is_short = item.entries is None
        given = ABSENT if is_short else item.at("path")
        found.append(
            ProcessingMount(
                known(path, item.span) if given.is_absent else given,
                item if is_short else item.at(place),
                known(str(name)),
                item.span,
            )
        )
    return tuple(found)


def _value(section: Section, unit: Unit, path: tuple[Any, ...], data: Any) -> Value:
    span = _span(section, unit, path)
    if isinstance(data, dict):
        return known(
            Entries({key: _value(section, unit, (*path, key), value) for key, value in data.items()}), span
        )
    if isinstance(data, list):
        return known(tuple(_value(section, unit, (*path, i), value) for i, value in enumerate(data)), span)
    # A key without a value is absent.
    return ABSENT if data is None else known(data, span)


def _span(section: Section, unit: Unit, path: tuple[Any, ...]) -> Span:
    line = section.line(path) if section.marks else 1
    text = unit.lines[line - 1] if line <= len(unit.lines) else ""
    column = len(text) - len(text.lstrip()) + 1
    return unit.span(line, column, line, max(column + 1, len(text.rstrip()) + 1))
