"""A control group for the processes of one run, with which the kernel ends all of them at once.

It reaches processes that have lost every guard above them. Source: the kernel's cgroup-v2.rst (cgroup.procs, cgroup.kill).
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

_REMOVE_SECONDS = 2.0
_PAUSE_SECONDS = 0.005


def group_name(run_id: str, host: str = "") -> str:
    """How the name of a run's control group begins."""
    return f"gpuproof-{run_id}{'.' if host else ''}{host}"


def create_group(name: str) -> Path | None:
    """Create a group below this process's own and return its folder.

    Args:
        name: how its name begins. The rest is random: two guards end the same group, and the second must not find the group
            of a run that came between them.

    Returns:
        `None` if this host has no version 2 groups that can end their members (Linux 5.14), or does not let this user
        create one.
    """
    try:
        folder = _own_group() / f"{name}.{os.urandom(4).hex()}"
        folder.mkdir()
    except OSError:
        return None
    if (folder / "cgroup.kill").exists():
        return folder
    end_group(folder)
    return None


def add_to_group(folder: Path, pid: int) -> bool:
    """Move a process into a group; what it starts from now on belongs to the group, too."""
    try:
        (folder / "cgroup.procs").write_text(str(pid))
    except OSError:
        return False  # it has ended, or it may not be moved
    return True


def end_group(folder: Path) -> None:
    """Kill the members of a group, and remove it; does nothing if it does not exist."""
    with contextlib.suppress(OSError):
        (folder / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + _REMOVE_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(_PAUSE_SECONDS)  # its members are still ending


def is_group_of(folder: Path, run_id: str) -> bool:
    """Whether a path is that of a run's group, and not of something else on the disk."""
    return (
        folder.name.startswith(f"{group_name(run_id)}.")
        and ".." not in folder.parts
        and folder.parts[:4] == ("/", "sys", "fs", "cgroup")
    )


def _own_group() -> Path:
    own = re.search(r"^0::(/.*)$", Path("/proc/self/cgroup").read_text(encoding="utf-8"), re.MULTILINE)
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        # The mount point is the fifth field, and the type follows a hyphen: proc_pid_mountinfo(5).
        before, _, after = line.partition(" - ")
        if own is not None and after.startswith("cgroup2 "):
            return Path(before.split()[4]) / own[1].lstrip("/")
    raise FileNotFoundError("cgroup2")
