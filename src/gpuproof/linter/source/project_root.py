"""The root folder of the project that a folder belongs to, and the folders up to it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_MARKERS = (".git", "pyproject.toml", "setup.py", "gpuproof.yaml")

_SUFFIXES = (".py", ".ipynb", ".md", ".txt", ".toml", ".yaml", ".yml", ".json", ".sh", ".tf", ".cfg", ".ini")
_NAMES = ("Dockerfile", "Makefile", "LICENSE")

LEVELS = 4
"""Folders above a launcher outside of a repository in which its script is looked for."""


@lru_cache(maxsize=4096)
def project_root(folder: str) -> str | None:
    """The nearest folder, from this one upwards, that contains the files of a project's root; None without one."""
    if any(os.path.exists(f"{folder}/{name}") for name in _MARKERS):  # noqa: PTH110  # runs for many folders
        return folder
    parent = os.path.dirname(folder)  # noqa: PTH120
    return project_root(parent) if parent != folder else None


@lru_cache(maxsize=4096)
def project_folder(folder: str) -> str:
    """The folder of the project that a folder belongs to, whatever folder is checked.

    Without a file that marks the root of a project, it is the highest folder up to which the folders have files of a
    project: a script, a notebook, a README, settings. One folder on the way may have none.
    """
    marked = project_root(folder)
    if marked is not None:
        return marked
    parent = os.path.dirname(folder)  # noqa: PTH120
    for above in (parent, os.path.dirname(parent)):  # noqa: PTH120
        if above not in (folder, "/") and _has_files(above):
            return project_folder(above)
    return folder


@lru_cache(maxsize=4096)
def _has_files(folder: str) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(
                (entry.name.endswith(_SUFFIXES) or entry.name in _NAMES) and entry.is_file()
                for entry in entries
            )
    except OSError:
        return False


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
