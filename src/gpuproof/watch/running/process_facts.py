"""Facts of other processes of this host, from `/proc`: who started what, and when."""

from __future__ import annotations

import os
import re
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

_NAMES = 1024
"""Bytes of a command line that are kept."""
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
"""The id of a container in the path of its cgroup: Docker, containerd, CRI-O and Podman."""
_SLURM_JOB = re.compile(r"/job_(\d+)(?:/|$)")


@dataclass(frozen=True)
class ProcessFacts:
    """A process.

    Args:
        name: the kernel's short name, at most 15 bytes.
        group, session: ids of its process group and of its session.
        start_ticks: when it started, in clock ticks since the machine's start; tells processes with the same id apart.
        started: the same in seconds since the epoch.
        user: name, or id as text, of the user as whom it runs.
        command: its program and arguments; its short name alone if they cannot be read.
    """

    pid: int
    name: str
    parent: int
    group: int
    session: int
    start_ticks: int
    started: float
    user: str
    command: tuple[str, ...]

    @property
    def command_line(self) -> str:
        """The command as a shell would take it."""
        return " ".join(shlex.quote(word) for word in self.command)

    @property
    def age(self) -> float:
        """For how many seconds it has been running."""
        return max(0.0, time.time() - self.started)


def read_facts(pid: int) -> ProcessFacts | None:
    """The facts of a process; `None` if it does not exist, has ended, or is hidden from this user."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        uid = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None
    # proc_pid_stat(5): the name in parentheses may itself contain parentheses and spaces.
    name = os.fsdecode(stat[stat.index(b"(") + 1 : stat.rindex(b")")])
    fields = stat[stat.rindex(b")") + 2 :].split()
    if fields[0] in (b"Z", b"X"):
        return None
    ticks = int(fields[19])
    return ProcessFacts(
        pid=pid,
        name=name,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=ticks,
        started=time.time() - max(0.0, _uptime() - ticks / os.sysconf("SC_CLK_TCK")),
        user=_user(uid),
        command=_command(pid) or (name,),
    )


def thread_of(pid: int) -> int | None:
    """The process to which an id belongs that is a thread's; `None` if it is a process, or does not exist."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None
    found = re.search(r"^Tgid:\s*(\d+)$", status, re.MULTILINE)
    return int(found[1]) if found and int(found[1]) != pid else None


def workload_of(pid: int) -> str | None:
    """The container or the Slurm job of a process, such as `container 3f2a9c1b7d0e` or `Slurm job 17`, if its cgroup has it."""
    try:
        text = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        if job := _SLURM_JOB.search(path):
            return f"Slurm job {job[1]}"
        if container := _CONTAINER.search(path):
            return f"container {container[1][:12]}"
    return None


def _command(pid: int) -> tuple[str, ...]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - bytes of another process
            text = file.read(_NAMES)
    except OSError:
        return ()
    return tuple(os.fsdecode(word) for word in text.rstrip(b"\0").split(b"\0")) if text.strip(b"\0") else ()


def _user(uid: int) -> str:
    import pwd  # not part of every Python

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _uptime() -> float:
    # The clock of start times, which goes on while the machine is suspended: proc_pid_stat(5), since Linux 2.6.
    return time.clock_gettime(time.CLOCK_BOOTTIME)
