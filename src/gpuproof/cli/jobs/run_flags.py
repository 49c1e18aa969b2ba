"""The flags of `gpuproof run` that describe a job, and the job that results from them and its file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuproof.cli.arguments import add_flags, given_flags
from gpuproof.errors import UsageError

if TYPE_CHECKING:
    from gpuproof.backends.base import Backend
    from gpuproof.jobs.script_job import AnyJob


AUTO = "auto"
"""What `--instance-type` takes besides a type."""


def add_job_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that override the job file."""
    add_flags(parser, "run", notes={"instance_type": "auto: what `gpuproof plan` recommends for the script"})


def add_backend_flags(parser: argparse.ArgumentParser, backend: type[Backend[Any]]) -> None:
    """Add the flags that only one backend takes."""
    flags = [flag for flag in backend.flags if flag.help]
    if not flags:
        return
    group = parser.add_argument_group(f"only with --on {backend.name}")
    for flag in flags:
        group.add_argument(
            flag.name,
            default=flag.default,
            metavar=flag.metavar,
            choices=flag.choices or None,
            help=flag.help,
        )


def read_job(arguments: argparse.Namespace) -> AnyJob:
    """The job that TARGET names, with the flags applied.

    Raises:
        UsageError: there is no such job, or a flag is invalid.
        InvalidJob: its description is invalid.
    """
    from gpuproof.jobs.script_job import script_job

    path, name = find_target(arguments.target, arguments.job, Path.cwd())
    changes = given_flags(arguments, "run")
    if arguments.script_arguments is not None:
        changes["arguments"] = arguments.script_arguments
    if name is None and (job := script_job(path, changes)) is not None:
        return job
    from gpuproof.jobs import load_job, override_job  # imports pydantic, which a script alone does without

    return override_job(load_job(path, name), changes, Path.cwd())


def find_target(target: str | None, name: str | None, folder: Path) -> tuple[Path, str | None]:
    """The job file and the name of the job in it.

    Args:
        target: a script, a job file, a folder that contains one, or the name of a job in the folder's own job file.
        name: the name of a job in the file.

    Raises:
        UsageError: there is no job file.
    """
    standard = _job_file_in(folder)
    if target is None:
        if standard is None:
            raise UsageError(
                f"There is no gpuproof.yaml in {folder}, and no script was given.",
                remedy="gpuproof run train.py -- --epochs 5",
            )
        return standard, name
    path = folder / Path(target).expanduser()
    # A job may have the same name as the folder of its code.
    named = standard if name is None and "/" not in target and not path.suffix else None
    if path.is_dir() and (named is None or _job_file_in(path) is not None):
        return find_target(None, name, path)
    if named is not None and not path.is_file():
        return named, target
    return path, name


def _job_file_in(folder: Path) -> Path | None:
    return next(
        (folder / file for file in ("gpuproof.yaml", "gpuproof.yml") if (folder / file).is_file()), None
    )
