"""The root folder of the project that a folder belongs to."""

from __future__ import annotations

import os
from functools import lru_cache

_MARKERS = (".git", "pyproject.toml", "setup.py", "gpuproof.yaml")


@lru_cache(maxsize=4096)
def project_root(folder: str) -> str | None:
    """The nearest folder, from this one upwards, that contains the files of a project's root; None without one."""
    if any(os.path.exists(f"{folder}/{name}") for name in _MARKERS):  # noqa: PTH110  # runs for many folders
        return folder
    parent = os.path.dirname(folder)  # noqa: PTH120
    return project_root(parent) if parent != folder else None
