"""Chooses the launcher for `distribution: auto` from what a script uses and the number of GPUs and hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuproof.jobs.distribution.launchers import (
    MIRRORED,
    MPI,
    MULTI_WORKER_MIRRORED,
    NONE,
    PARAMETER_SERVER,
    TORCHRUN,
)

ONE_PROCESS = "one process"
"""Not a launcher: the script uses all GPUs of one host in one process, as with `DataParallel`."""
STRATEGY = "strategy"
"""`gpuproof.runtime.strategy()` without a kind: it chooses by the number of GPUs and hosts."""


@dataclass(frozen=True)
class ScriptUse:
    """Something in the code that is written for several GPUs or hosts.

    Args:
        launcher: the launcher that it needs; `none` if the script is its own launcher; `ONE_PROCESS`; `STRATEGY`.
        what: what the file does, as in `uses torch.distributed`.
        file: path of the file below the source folder.
    """

    launcher: str
    what: str
    file: str


@dataclass(frozen=True)
class Choice:
    """The launcher that `auto` stands for.

    Args:
        launcher: its name.
        because: the reason, as in `train.py uses torch.distributed; 4 GPUs on each of 2 hosts`.
        is_certain: false if nothing in the script uses several GPUs or hosts although there are several.
    """

    launcher: str
    because: str
    is_certain: bool = True


def choose(uses: Sequence[ScriptUse], entry_point: str, gpus: int, hosts: int) -> Choice:
    """Choose a launcher.

    Args:
        uses: what the script uses; see `find_uses`.
        gpus: number of GPUs of each host; 0 without any.
        hosts: number of hosts.
    """
    machine = format_machine(gpus, hosts)
    if hosts == 1 and gpus < 2:
        return Choice(NONE, machine)
    used = _first(uses, hosts)
    if used is None:
        unused = f"{entry_point} uses none of torch.distributed, tf.distribute and MPI"
        return Choice(NONE, f"{unused}; {machine}", is_certain=False)
    because, launcher = f"{used.file} {used.what}", used.launcher
    if launcher == STRATEGY:
        launcher = MULTI_WORKER_MIRRORED if hosts > 1 else MIRRORED
    if launcher in (MIRRORED, ONE_PROCESS) and hosts > 1:
        return Choice(NONE, f"{because}, which works on one host; {machine}", is_certain=False)
    return Choice(NONE if launcher == ONE_PROCESS else launcher, f"{because}; {machine}")


def format_machine(gpus: int, hosts: int) -> str:
    """The GPUs and hosts of a job, as in `4 GPUs on each of 2 hosts`."""
    count = "no GPU" if not gpus else f"{gpus} GPU{'' if gpus == 1 else 's'}"
    return f"{count} on {'one host' if hosts == 1 else f'each of {hosts} hosts'}"


def _first(uses: Sequence[ScriptUse], hosts: int) -> ScriptUse | None:
    """The use that decides: first a script that is its own launcher, then MPI, TensorFlow's strategies, torchrun."""
    strategies = (
        [MULTI_WORKER_MIRRORED, STRATEGY, PARAMETER_SERVER, MIRRORED]
        if hosts > 1
        else [MIRRORED, STRATEGY, MULTI_WORKER_MIRRORED, PARAMETER_SERVER]
    )
    for launcher in (NONE, MPI, *strategies, TORCHRUN, ONE_PROCESS):
        for use in uses:
            if use.launcher == launcher:
                return use
    return None
