"""The root folder of the project that a folder belongs to, and the folders up to it."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

_MARKERS = (".git", "pyproject.toml", "setup.py", "gpuproof.yaml")

LEVELS = 4
"""Folders above a launcher outside of a repository in which its script is looked for."""


@lru_cache(maxsize=4096)
def project_root(folder: str) -> str | None:
    """The nearest folder, from this one upwards, that contains the files of a project's root; None without one."""
    if any(os.path.exists(f"{folder}/{name}") for name in _MARKERS):  # noqa: PTH110  # runs for many folders
        return folder
    parent = os.path.dirname(folder)  # noqa: PTH120
    return project_root(parent) if parent != folder else None


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
