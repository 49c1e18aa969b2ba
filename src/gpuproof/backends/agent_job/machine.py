"""A machine for interactive work, in the agent's job and in a plan."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gpuproof.agent.job import MachineSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpuproof.jobs.models.machine import MachineJob
    from gpuproof.jobs.script_job import AnyJob


MACHINE_PROGRAM = "the machine's program"
"""What messages call it, in place of a script's name."""


@dataclass(frozen=True)
class JupyterServer:
    """The Jupyter server of a run.

    Args:
        forward: the command that forwards a local port to it, given that port; None if it runs on this machine.
    """

    port: int
    token: str
    forward: Callable[[int], Sequence[str]] | None = None

    def __repr__(self) -> str:
        """Without the token, so that no traceback contains it."""
        return f"JupyterServer(port={self.port})"


def parse_server(
    content: bytes, forward: Callable[[int, int], Sequence[str]] | None = None
) -> JupyterServer | None:
    """Read what the program of a machine has written about its server; None if it is something else.

    Args:
        content: see `gpuproof.agent.machine.files.SERVER`.
        forward: the command that forwards a local port, the second argument, to one of the machine.
    """
    try:
        found = json.loads(content)
        port, token = int(found["port"]), str(found["token"])
    except (ValueError, TypeError, KeyError):
        return None
    return JupyterServer(port, token, None if forward is None else partial(forward, port))


def machine_settings(job: AnyJob, *, seeds_work_folder: bool) -> MachineSettings | None:
    """What the agent runs instead of a script; None for a job with a script.

    Args:
        seeds_work_folder: whether the source is copied into the work folder.
    """
    if job.kind != "machine":
        return None
    return MachineSettings(job.jupyter, float(job.idle_timeout.seconds), seeds_work_folder)


def machine_text(job: MachineJob) -> str:
    """What runs on a machine and when it ends, for its plan."""
    what = "JupyterLab" if job.jupyter else "no program (--jupyter starts JupyterLab)"
    return f"{what}; ends when it is idle for {job.idle_timeout}, or after {job.max_duration}"
