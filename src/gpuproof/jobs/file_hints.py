"""Looking for a job's files on this disk."""

from __future__ import annotations

import os
from pathlib import Path

from gpuproof.jobs.suggestions import did_you_mean


def is_file(path: Path) -> bool:
    """Whether a file is there; a path that the system cannot even ask about is none."""
    return os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises for a name too long for the disk


def is_folder(path: Path) -> bool:
    """Whether a folder is there; a path that the system cannot even ask about is none."""
    return os.path.isdir(path)  # noqa: PTH112 - as above


def suggest_file(path: Path) -> str:
    """`; did you mean 'x'?` for the file beside a missing one whose name is nearest, or nothing."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if is_file(entry)]
    except OSError:
        return ""
    return did_you_mean(path.name, names)
