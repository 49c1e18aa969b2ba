"""Which process started a GPU program: the top of the tree that counts as one program."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Callable

from gpuproof.watch.running.process_facts import ProcessFacts, read_facts

_SHELLS = frozenset({"bash", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "xonsh", "zsh"})
_SERVICES = (
    *("systemd", "init", "(sd-pam)", "runit", "runsv", "s6-supervise", "supervisord", "tini", "dumb-init"),
    *("sshd", "login", "su", "cron", "crond", "atd", "tmux", "screen", "dtach", "mosh-server"),
    *("containerd-shim", "conmon", "dockerd", "crun", "runc", "pause", "kubelet"),
    *("slurmstepd", "slurmd", "pbs_mom", "sge_shepherd", "condor_starter", "raylet"),
    *(
        "jupyter",
        "jupyterhub",
        "code-server",
        "code",
        "rstudio",
        "airflow",
        "actions-runner",
        "Runner.Worker",
    ),
)
"""Beginnings of the short names of programs that start others for their users, each of which is a program of its own."""


def find_program_root(
    pid: int, read: Callable[[int], ProcessFacts | None] = read_facts
) -> ProcessFacts | None:
    """The highest ancestor of a process that belongs to the same program, such as torchrun of its ranks; `None` if it has ended.

    It ends below shells that a user types in, below services that start programs for others, and below processes that have also
    started this one.
    """
    process = read(pid)
    if process is None:
        return None
    own = ancestors(os.getpid(), read)
    while process.parent > 1 and process.parent not in own:
        parent = read(process.parent)
        if parent is None or _is_boundary(parent, process):
            break
        process = parent
    return process


def ancestors(pid: int, read: Callable[[int], ProcessFacts | None] = read_facts) -> Collection[int]:
    """The process and all its ancestors."""
    found: set[int] = set()
    while pid > 0 and pid not in found and (process := read(pid)) is not None:
        found.add(pid)
        pid = process.parent
    return found


def _is_boundary(parent: ProcessFacts, child: ProcessFacts) -> bool:
    if parent.name.startswith(_SERVICES):
        return True
    # A shell with job control, in which a user types, gives each command a process group of its own; a script's does not.
    return parent.name.lstrip("-") in _SHELLS and parent.group != child.group
