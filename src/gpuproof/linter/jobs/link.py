"""Finds the jobs that units describe and links each to its script."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from gpuproof.linter.analysis.values import Value, known
from gpuproof.linter.analysis.workspace import Workspace
from gpuproof.linter.internal_errors import ErrorLog
from gpuproof.linter.jobs import boto3, sdk_v2, sdk_v3
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.source.span import Unit

_WORDS = ("sagemaker", *boto3.OPERATIONS)
"""A Python text without any of these words does not describe a job."""

LEVELS = 4
"""Folders above a launcher outside of a repository in which its script is looked for."""


def find_jobs(
    units: Iterable[Unit],
    workspace: Workspace,
    log: ErrorLog | None = None,
    instance_type: str | None = None,
) -> list[JobDefinition]:
    """Every job that the units describe, each linked to its script, in the order of the units.

    Args:
        units: the texts that may describe jobs.
        log: gets the exceptions; a job or unit that raises one is left out.
    """
    log = log or ErrorLog()
    found: list[JobDefinition] = []

    def linked(job: JobDefinition) -> Iterator[JobDefinition]:
        if instance_type is not None and job.instance_type.span is not None:
            job = replace(job, instance_type=known(instance_type, job.instance_type.span))
        yield _linked(job, workspace)

    for unit in units:
        for job in log.guard(partial(_described_in, unit, workspace), unit.path, task="finding the jobs"):
            found += log.guard(partial(linked, job), unit.path, task="finding the script of a job")
        workspace.trim()
    return found


def assumed_job(unit: Unit, workspace: Workspace, instance_type: str) -> JobDefinition | None:
    """A training job that runs a script on an instance type, for scripts that no file describes a job for."""
    module = workspace.module(unit) if unit.kind in ("python", "cell-file") else None
    if module is None:
        return None
    start = unit.span(1)
    return JobDefinition(
        kind="training",
        source="what-if",
        api=f"--instance-type {instance_type}",
        span=start,
        instance_type=known(instance_type),
        instance_count=known(1),
        entry_point=known(unit.absolute.name),
        module=module,
        script=module,
        script_found=True,
    )


def _described_in(unit: Unit, workspace: Workspace) -> Iterator[JobDefinition]:
    match unit.kind:
        case "python" | "notebook" | "cell-file" | "markdown":
            if any(word in unit.source for word in _WORDS):
                yield from _of_python(unit, workspace)
        case "gpuproof":
            from gpuproof.linter.jobs import gpuproof_yaml

            yield from gpuproof_yaml.jobs(unit)
        case "cloudformation" | "terraform" | "request":
            from gpuproof.linter.jobs import templates

            yield from templates.jobs(unit)
        case _:
            return


def _of_python(unit: Unit, workspace: Workspace) -> Iterator[JobDefinition]:
    module = workspace.module(unit)
    if module is None:
        return
    if module.imports("sagemaker"):
        yield from sdk_v2.jobs(module)
        yield from sdk_v3.jobs(module)
    yield from boto3.jobs(module)


def _linked(job: JobDefinition, workspace: Workspace) -> JobDefinition:
    """Link a job to its script, if the script can be found."""
    model = _linked(job.model, workspace) if job.model is not None else None
    folder = _source_folder(job)
    entry = job.entry_point
    if model is not job.model:
        job = replace(job, model=model)
    if not entry.is_known or entry.text is None or folder is None or "://" in entry.text:
        return job
    if not job.argument("git_config").is_absent:
        return job
    for base in folder:
        unit = workspace.file(base / entry.text)
        if unit is not None:
            script = workspace.module(unit)
            return replace(job, script=script, script_found=True)
        if workspace.exists(base / entry.text):
            return replace(job, script_found=True)
    # A relative path is certainly wrong only if its folder exists.
    seen = any(base != job.span.unit.absolute.parent and workspace.exists(base) for base in folder)
    return replace(job, script_found=False if seen or not job.source_dir.is_sure else None)


def launch_folders(launcher: Path) -> list[Path]:
    """Folders that a job's paths may be relative to: the launcher's folder and those above, up to the repository's root.

    The working directory of the launcher is unknown, and that of `gpuproof check` must not change its findings. Without
    a repository, `LEVELS` folders above the launcher's.
    """
    beside = launcher.parent
    above = list(beside.parents)[:-1]  # without the root folder
    folders = [beside, *above]
    repository = next((folder for folder in folders if (folder / ".git").exists()), None)
    if repository is None:
        return folders[: LEVELS + 1]
    return folders[: folders.index(repository) + 1]


def _source_folder(job: JobDefinition) -> list[Path] | None:
    """The folders in which the entry point may be."""
    bases = launch_folders(job.span.unit.absolute)
    source: Value = job.source_dir
    if source.is_absent or (source.is_known and source.value is None):
        return bases
    if source.text is None or "://" in source.text:
        return None
    return [base / source.text for base in bases]
