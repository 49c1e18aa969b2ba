"""The variables by which a launcher tells a process its rank: those of the job's launcher, or those that a script reads without one."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from gpuproof.trace.notes import Notes

TORCHRUN, MPI, NONE, AUTO = "torchrun", "mpi", "none", "auto"
LAUNCHERS = (TORCHRUN, MPI, NONE, AUTO)
"""What starts the script; `auto` if that is not known."""

_MEETING = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def rank_variables(launcher: str, world: int) -> dict[str, str]:
    """What a launcher sets for the first of its processes.

    Sources: https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables,
    https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html.

    Args:
        launcher: one of `LAUNCHERS`.
        world: processes on the host, one for each GPU.
    """
    if launcher == MPI:
        names = ("COMM_WORLD_RANK", "COMM_WORLD_LOCAL_RANK", "COMM_WORLD_NODE_RANK")
        sizes = ("COMM_WORLD_SIZE", "COMM_WORLD_LOCAL_SIZE")
        ranks = {**dict.fromkeys(names, "0"), **dict.fromkeys(sizes, str(world))}
        return {f"OMPI_{name}": value for name, value in ranks.items()}
    names, sizes = ("RANK", "LOCAL_RANK", "GROUP_RANK"), ("WORLD_SIZE", "LOCAL_WORLD_SIZE")
    return {**dict.fromkeys(names, "0"), **dict.fromkeys(sizes, str(world)), **_MEETING}


def set_rank_variables(launcher: str, world: int, notes: Notes) -> None:
    """Let the script find the variables of its launcher.

    If the launcher is not known, several GPUs have torchrun's. With one GPU the script would start with or without it: then only a
    variable without which the script would end is answered.

    Args:
        launcher: one of `LAUNCHERS`.
        world: processes on the host, one for each GPU.
        notes: takes that a variable was answered.
    """
    if launcher == NONE:
        return
    variables = rank_variables(launcher, world)
    if launcher != AUTO or world > 1:
        for name, value in variables.items():
            os.environ.setdefault(name, value)
    else:
        _answer_missing(variables, notes)


def _answer_missing(variables: Mapping[str, str], notes: Notes) -> None:
    kind: Any = type(os.environ)
    original = kind.__getitem__

    def is_set(environment: Any, name: Any) -> bool:
        try:
            original(environment, name)
        except KeyError:
            return False
        return True

    def item(environment: Any, name: Any) -> Any:
        if name in variables and environment is os.environ and not is_set(environment, name):
            value = variables[name]
            notes.add(
                "launcher", f"{name} is not set; torchrun would set it to {value} for a single process."
            )
            return value
        return original(environment, name)

    def get(environment: Any, name: Any, default: Any = None) -> Any:
        return original(environment, name) if is_set(environment, name) else default

    kind.__getitem__, kind.get, kind.__contains__ = item, get, is_set
