"""Existence checks and suggestions for local files."""

from __future__ import annotations

import os
from pathlib import Path

from gpuproof.jobs.suggestions import did_you_mean


def is_file(path: Path) -> bool:
    """Whether the file exists; False for a path that the system rejects."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for a name too long for the disk


def is_folder(path: Path) -> bool:
    """Whether the folder exists; False for a path that the system rejects."""
    return os.path.isdir(path)  # noqa: PTH112 - as above


def suggest_file(path: Path) -> str:
    """Returns `; did you mean 'x'?` for the file in the same folder with the nearest name, or an empty text."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if is_file(entry)]
    except OSError:
        return ""
    return did_you_mean(path.name, names)
