"""Loads jobs from a `gpuproof.yaml`, from a folder that contains one, or from a script."""

from __future__ import annotations

from pathlib import Path

from gpuproof.errors import UsageError
from gpuproof.jobs.file_hints import is_file, is_folder, suggest_file
from gpuproof.jobs.spec import Job, TrainingJob
from gpuproof.jobs.suggestions import did_you_mean

FILE_NAMES = ("gpuproof.yaml", "gpuproof.yml")


def load(path: Path, name: str | None = None) -> Job:
    """Loads one job; its paths are absolute.

    Args:
        path: a `gpuproof.yaml`, a folder that contains one, or a script.
        name: which of the file's jobs; optional if there is only one.

    Raises:
        UsageError: the file or the job does not exist, or the name is missing.
        InvalidJob: the description is invalid; each line of the message names file, line and key.
    """
    if _is_script(path):
        if name:
            raise UsageError(f"'{name}' selects a job of a gpuproof.yaml, but {path} is a script")
        return _job_of_script(path)
    jobs = load_jobs(path)
    if name is None and len(jobs) == 1:
        return next(iter(jobs.values()))
    if name is None:
        example = f"choose one: {path} {next(iter(jobs))}"
        raise UsageError(f"{path} has several jobs: {', '.join(jobs)}", example)
    if name not in jobs:
        near = did_you_mean(name, jobs)
        raise UsageError(f"{path} has no job '{name}'{near}", f"its jobs are: {', '.join(jobs)}")
    return jobs[name]


def load_jobs(path: Path) -> dict[str, Job]:
    """Loads every job of a `gpuproof.yaml`, by key (or by name, if the file is one job); paths are absolute.

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
