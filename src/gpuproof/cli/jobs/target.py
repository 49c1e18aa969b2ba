"""Finds the job file that `gpuproof run TARGET` names."""

from __future__ import annotations

from pathlib import Path

from gpuproof.errors import UsageError


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
