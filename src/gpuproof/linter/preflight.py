"""Checks a job before it runs: its description, its script, and the modules that the script imports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import ABSENT, Entries, Value, known
from gpuproof.linter.config import read_settings
from gpuproof.linter.engine import check_project, sorted_hits
from gpuproof.linter.internal_errors import ErrorLog
from gpuproof.linter.jobs.arguments import flag_of
from gpuproof.linter.jobs.definition import JobDefinition, ProcessingMount
from gpuproof.linter.project import Project, Target
from gpuproof.linter.reach.blocking import JobReach
from gpuproof.linter.registry import Selection
from gpuproof.linter.rule import Hit
from gpuproof.linter.settings_by_file import SettingsByFile
from gpuproof.linter.source.decode import Unreadable
from gpuproof.linter.source.read import read_file
from gpuproof.linter.source.span import Unit

if TYPE_CHECKING:
    from gpuproof.jobs.script_job import AnyJob


def check_job(
    job: AnyJob,
    region: str | None = None,
    *,
    is_remote: bool = True,
    tensorflow: str | None = None,
    log: ErrorLog | None = None,
) -> list[Hit]:
    """Check a job and its script, with the settings in `[tool.gpuproof.check]` of the script's project.

    Args:
        job: a job from `gpuproof.jobs.load`, with absolute paths.
        is_remote: whether the job runs on a machine that is deleted when it ends.
        tensorflow: the version that is installed where the job runs, if that is known.

    Returns:
        Findings, sorted by location. Only those that are certain, and that this job reaches with its arguments, are
        errors. Findings about the job itself have no location, because its settings may be those of a command line. Empty
        for an entry point that is not Python.

    Raises:
        UsageError: the project's settings are invalid.
    """
    path = Path(job.source_dir) / job.entry_point
    if path.suffix != ".py":
        return []
    by_file = SettingsByFile(
        read_settings(path.parent), Selection(), Target(region=region, tensorflow=tensorflow)
    )
    try:
        units = read_file(_shown(path))
    except Unreadable:
        # The backend reports unreadable files.
        return []
    project = Project(units, by_file.of(str(path)).target)
    project.workspace.set_job_arguments(units[0], _command_line(job))
    script = project.workspace.module(units[0])
    definition = _definition(job, units[0], script)
    if script is not None:
        units = [module.unit for module in local_modules(script)]
    log = log if log is not None else ErrorLog()
    found = check_project(project, units, by_file, log, jobs=[definition])
    kept = sorted_hits(hit for hit in found if by_file.keeps(hit))
    requests_gpu = True if job.resources.gpu is not None else None
    reach = JobReach(project, definition, has_gpu=requests_gpu, is_remote=is_remote)
    settled = (reach.settle(hit, log) for hit in kept)
    return [
        replace(hit, finding=replace(hit.finding, location=None)) if hit.span is definition.span else hit
        for hit in settled
    ]


def _command_line(job: AnyJob) -> list[str]:
    """The arguments of the script: hyperparameters, as SageMaker's toolkit passes them, then the job's own."""
    given: dict[str, Any] = {} if job.kind == "processing" else job.model_dump().get("hyperparameters", {})
    passed = [(flag_of(name), value) for name, value in sorted(given.items())]
    return [*(str(word) for pair in passed for word in pair), *job.arguments]


def _definition(job: AnyJob, unit: Unit, script: Module | None) -> JobDefinition:
    document: dict[str, Any] = job.model_dump()
    whole = {key: _value(value) for key, value in document.items()}
    is_processing = job.kind == "processing"
    inputs = whole.get("inputs", ABSENT)
    return JobDefinition(
        kind="processing" if is_processing else "training",
        source="gpuproof",
        api=f"job {job.name}",
        span=unit.span(1),
        instance_type=whole["instance_type"],
        instance_count=whole["instance_count"],
        framework=job.framework,
        framework_version=whole["framework_version"],
        image=whole["image"],
        distribution=whole.get("distribution", ABSENT),
        hyperparameters=whole.get("hyperparameters", ABSENT),
        environment=whole["environment"],
        entry_point=whole["entry_point"],
        source_dir=whole["source_dir"],
        channels={} if is_processing else {str(name): value for name, value in inputs.parts.items()},
        channels_known=not is_processing,
        inputs=_mounts(inputs) if is_processing else None,
        outputs=_mounts(whole.get("outputs", ABSENT)) if is_processing else None,
        container_arguments=whole["arguments"],
        arguments=whole,
        script=script,
        script_found=True,
    )


def _mounts(mounts: Value) -> tuple[ProcessingMount, ...]:
    return tuple(
        ProcessingMount(part.at("path"), part.at("source"), known(name))
        for name, part in mounts.parts.items()
    )


def _value(value: Any) -> Value:
    if isinstance(value, dict):
        return known(Entries({key: _value(item) for key, item in value.items()}))
    if isinstance(value, (list, tuple)):
        return known(tuple(_value(item) for item in value))
    return ABSENT if value is None else known(value)


def _shown(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
