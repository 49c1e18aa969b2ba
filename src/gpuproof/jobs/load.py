"""Loads jobs from a `gpuproof.yaml`, from a folder that contains one, or from a script."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar, get_args

from gpuproof.errors import UsageError
from gpuproof.jobs import kinds
from gpuproof.jobs.file_hints import is_file, is_folder, suggest_file
from gpuproof.jobs.models.job_model import JobModel
from gpuproof.jobs.models.script_jobs import Job, TrainingJob
from gpuproof.jobs.suggestions import did_you_mean

FILE_NAMES = ("gpuproof.yaml", "gpuproof.yml")


ModelType = TypeVar("ModelType", bound=JobModel)


def load(path: Path, name: str | None = None) -> Job:
    """Loads one job that `gpuproof run` runs; its paths are absolute.

    Args:
        path: a `gpuproof.yaml`, a folder that contains one, or a script.
        name: which of the file's jobs; optional if only one can be meant.

    Raises:
        UsageError: the file or the job does not exist, the name is missing, or another command takes such a job.
        InvalidJob: the description is invalid; each line of the message names file, line and key.
    """
    if _is_script(path):
        if name:
            raise UsageError(f"'{name}' selects a job of a gpuproof.yaml, but {path} is a script")
        return _job_of_script(path)
    return _choose(path, name, get_args(Job), kinds.RUN)


def load_as(path: Path, name: str | None, model: type[ModelType]) -> ModelType:
    """Loads one job of a kind that has a command of its own; its paths are absolute.

    Args:
        path: a `gpuproof.yaml`, or a folder that contains one.
        name: which of the file's jobs; optional if only one is of this kind.
        model: the model of the kind.

    Raises:
        UsageError: as for `load`.
        InvalidJob: as for `load`.
    """
    return _choose(path, name, (model,), kinds.KINDS[model.model_fields["kind"].default].command)


def _choose(path: Path, name: str | None, models: tuple[type[ModelType], ...], command: str) -> ModelType:
    jobs = load_jobs(path)
    usable = {key: job for key, job in jobs.items() if isinstance(job, models)}
    if name is None and len(usable) == 1:
        return next(iter(usable.values()))
    if name is None and usable:
        example = f"choose one: {path} {next(iter(usable))}"
        raise UsageError(f"{path} has several jobs: {', '.join(usable)}", example)
    if name is not None and name not in jobs:
        near = did_you_mean(name, jobs)
        raise UsageError(f"{path} has no job '{name}'{near}", f"its jobs are: {', '.join(jobs)}")
    if name is None or name not in usable:
        raise _other_command(path, name, jobs, command)
    return usable[name]


def _other_command(path: Path, name: str | None, jobs: Mapping[str, JobModel], command: str) -> UsageError:
    """The error for a job that another command takes: the one that was named, or the only one or first of the file."""
    key = name if name is not None else next(iter(jobs))
    kind = kinds.KINDS[str(dict(jobs[key])["kind"])]
    which = f" {key}" if len(jobs) > 1 else ""
    return UsageError(
        f"'{key}' is {kind.phrase}, which {command} does not take", f"{kind.command} {path}{which}"
    )


def load_jobs(path: Path) -> dict[str, JobModel]:
    """Loads every job of a `gpuproof.yaml`, of all kinds, by key (or by name, if the file is one job); paths are absolute.

    Args:
        path: the file, or a folder that contains one.

    Raises:
        UsageError: the file does not exist or cannot be read.
        InvalidJob: with every problem of the file, sorted by line.
    """
    from gpuproof.jobs.yaml_file.jobs import read_jobs  # yaml is slow to import, and not needed for a script

    return read_jobs(_description_file(path))


def _is_script(path: Path) -> bool:
    return not is_folder(path) and path.suffix not in (".yaml", ".yml")


def _job_of_script(path: Path) -> Job:
    if not is_file(path):
        raise UsageError(f"{path} does not exist{suggest_file(path)}")
    if path.suffix == ".ipynb":
        raise UsageError(
            f"{path} is a notebook", f"convert it to a script: jupyter nbconvert --to script '{path}'"
        )
    script = path.absolute()
    return TrainingJob(entry_point=script.name, source_dir=str(script.parent))


def _description_file(path: Path) -> Path:
    if is_file(path):
        return path
    if not is_folder(path):
        raise UsageError(f"{path} does not exist{suggest_file(path)}")
    for file_name in FILE_NAMES:
        if is_file(path / file_name):
            return path / file_name
    raise UsageError(f"there is no {FILE_NAMES[0]} in {path}", "run a script instead: gpuproof run train.py")
