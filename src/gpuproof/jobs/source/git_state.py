"""The commit that a source folder is at, as far as git tells."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

_MOST_SECONDS = 10.0
_COMMIT = "# branch.oid "


class GitState(NamedTuple):
    """The state of a folder in a git repository.

    Attributes:
        commit: in hexadecimal.
        is_dirty: whether the folder has changes that are not committed, or files that are neither committed nor ignored.
    """

    commit: str
    is_dirty: bool


def git_state(folder: Path) -> GitState | None:
    """The state of a folder; `None` if it is in no repository, if there is no commit, or if git cannot be run there."""
    folder = folder.resolve()
    if not any((parent / ".git").exists() for parent in (folder, *folder.parents)):
        return None
    # Variables of a hook that runs this would name another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            # Without the monitor, which is a program that the repository names.
            ["git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "--", "."],
            cwd=folder,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MOST_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    lines = done.stdout.decode(errors="replace").splitlines()
    commit = next((line.removeprefix(_COMMIT) for line in lines if line.startswith(_COMMIT)), "")
    if not commit.isalnum():  # "(initial)" before the first commit
        return None
    return GitState(commit, any(not line.startswith("#") for line in lines))
