"""Overrides a job's values by command-line flags, which take precedence over the file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from gpuproof.errors import UsageError
from gpuproof.jobs.distribution.launchers import NONE
from gpuproof.jobs.kinds import KINDS
from gpuproof.jobs.local_paths import resolve_path
from gpuproof.jobs.models.machine import MachineJob
from gpuproof.jobs.models.script_jobs import Job, ProcessingJob, TrainingJob
from gpuproof.jobs.overrides import Overrides
from gpuproof.jobs.validation_errors import FieldProblem, InvalidFields

JobType = TypeVar("JobType", bound=Job)

_FLAGS: dict[str, str] = {
    "name": "--name",
    "include": "--include",
    "respect_gitignore": "--respect-gitignore",
    "inputs": "--input",
    "hyperparameters": "-p",
    "environment": "--env",
    "instance_type": "--instance-type",
    "instance_count": "--instance-count",
    "distribution": "--distribution",
    "resources": "--gpu",
    "max_duration": "--max-duration",
    "stall_timeout": "--stall-timeout",
    "require_gpu": "--require-gpu",
    "jupyter": "--jupyter",
    "idle_timeout": "--idle-timeout",
    "arguments": "the arguments after --",
    "framework": "--framework",
    "framework_version": "--framework-version",
    "image": "--image",
    "fallbacks": "--fallback",
    "tags": "--tag",
}
_NAMED = ("-p", "--env", "--input", "--tag")
_FLAGS_BELOW: dict[tuple[str, ...], str] = {
    ("distribution", "launcher"): "--distribution",
    ("distribution", "processes_per_host"): "--processes-per-host",
    ("resources", "region"): "--region",
    ("resources", "spot"): "--spot",
    ("sagemaker", "role"): "--role",
    ("sagemaker", "bucket"): "--bucket",
    ("sagemaker", "max_wait"): "--max-wait",
    ("sagemaker", "keep_alive"): "--keep-alive",
    ("ec2", "instance_profile"): "--role",
    ("ec2", "bucket"): "--bucket",
}


def override_job(job: JobType, changes: Overrides, folder: Path) -> JobType:
    """Returns the job with the flags applied.

    Args:
        job: as it was read.
        changes: the flags.
        folder: the current directory; relative paths of the flags start here.

    Raises:
        UsageError: a flag is invalid; the message names the flag.
    """
    data = {**dict(job), **_plain_changes(changes)}
    if changes.inputs:
        data["inputs"] = _inputs(job, _sources(changes.inputs, folder))
    if changes.hyperparameters:
        if not isinstance(job, TrainingJob):
            raise UsageError(
                f"-p: {KINDS[job.kind].phrase} has no hyperparameters",
                "pass arguments after --, as in -- --epochs 5" if isinstance(job, ProcessingJob) else None,
            )
        given = _pairs("-p", changes.hyperparameters, "epochs=5")
        data["hyperparameters"] = {
            **job.hyperparameters,
            **{key: _json_or_text(text) for key, text in given.items()},
        }
    if changes.environment:
        data["environment"] = {
            **job.environment,
            **_pairs("--env", changes.environment, "TF_CPP_MIN_LOG_LEVEL=1"),
        }
    if changes.include:
        data["include"] = (*job.include, *(os.path.normpath(pattern) for pattern in changes.include))
    if changes.tags:
        data["tags"] = {**job.tags, **_pairs("--tag", changes.tags, "project=cats")}
    if changes.instance_type is not None:
        data["resources"] = job.resources.model_copy(update={"gpu": None, "gpu_memory": None})
    data |= _distribution(job, changes)
    data["resources"] = _with(data["resources"], region=changes.region, spot=changes.spot, gpu=changes.gpu)
    if not isinstance(job, MachineJob):
        data["sagemaker"] = _with(
            job.sagemaker,
            role=changes.role,
            bucket=changes.bucket,
            max_wait=changes.max_wait,
            keep_alive=changes.keep_alive,
        )
    # A flag is for the backend that runs the job.
    data["ec2"] = _with(job.ec2, instance_profile=changes.role, bucket=changes.bucket)
    if changes.gpu is not None:
        data["instance_type"] = changes.instance_type
    try:
        return type(job).model_validate(data).with_absolute_paths(folder)
    except InvalidFields as error:
        sentences = dict.fromkeys(_sentence(problem) for problem in error.field_problems)
        raise UsageError("\n".join(sentences)) from None


def _plain_changes(changes: Overrides) -> dict[str, Any]:
    given = {
        "name": changes.name,
        "respect_gitignore": changes.respect_gitignore,
        "instance_type": changes.instance_type,
        "instance_count": changes.instance_count,
        "max_duration": changes.max_duration,
        "stall_timeout": changes.stall_timeout,
        "require_gpu": changes.require_gpu,
        "jupyter": changes.jupyter,
        "idle_timeout": changes.idle_timeout,
        "arguments": None if changes.arguments is None else tuple(changes.arguments),
        "framework": changes.framework,
        "framework_version": changes.framework_version,
        "image": changes.image,
        "fallbacks": tuple(changes.fallbacks) or None,
    }
    return {key: value for key, value in given.items() if value is not None}


def _distribution(job: Job, changes: Overrides) -> dict[str, Any]:
    """The launcher and its options: those of the file are kept if its launcher is."""
    if changes.distribution is None and changes.processes_per_host is None:
        return {}
    if not isinstance(job, TrainingJob):
        raise UsageError("--distribution: only training jobs are distributed")
    kept: dict[str, Any] = {} if job.distribution is None else dict(job.distribution)
    launcher = changes.distribution or kept.get("launcher", NONE)
    if kept.get("launcher") != launcher:
        kept = {"launcher": launcher}
    if changes.processes_per_host is not None:
        kept["processes_per_host"] = changes.processes_per_host
    return {"distribution": kept}


def _with(part: Any, **given: Any) -> Any:
    """A nested mapping with the given flags applied, to be validated again; unchanged if there are none.

    Keys that neither the file nor a flag sets stay unset: `spot: false` differs from no `spot`.
    """
    said = {key: value for key, value in given.items() if value is not None}
    return {**{key: getattr(part, key) for key in part.model_fields_set}, **said} if said else part


def _pairs(flag: str, texts: Sequence[str], example: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{flag} '{text}' is not NAME=VALUE", f"write, for example, {flag} {example}")
        pairs[key] = value
    return pairs


def _sources(texts: Sequence[str], folder: Path) -> dict[str, str]:
    pairs = _pairs("--input", texts, "training=./data")
    return {
        key: resolve_path(place, folder) if place and "://" not in place else place
        for key, place in pairs.items()
    }


def _inputs(job: Job, sources: dict[str, str]) -> dict[str, Any]:
    """The job's inputs with new sources; an existing input of a processing job keeps its path."""
    if not isinstance(job, ProcessingJob):
        return {**job.inputs, **sources}
    mounts = {key: mount.model_dump() for key, mount in job.inputs.items()}
    return {**mounts, **{key: {**mounts.get(key, {}), "source": source} for key, source in sources.items()}}


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except ValueError:
        return text


def _sentence(problem: FieldProblem) -> str:
    flag = _flag_of(problem)
    inner = f" {problem.path[1]}" if len(problem.path) > 1 and flag in _NAMED else ""
    # After an unknown key comes a hint, such as `; a machine is one host`.
    rest = f":{problem.rest[1:]}" if problem.rest.startswith(";") else problem.rest
    return f"{flag}{inner}{rest}" if flag else problem.sentence()


def _flag_of(problem: FieldProblem) -> str:
    keys = tuple(str(key) for key in problem.path[:2])
    below = _FLAGS_BELOW.get(keys) if len(keys) > 1 else None
    return below or (_FLAGS.get(keys[0], "") if keys else "")
