"""The launcher of a job and its options, as every backend passes them to the agent."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.agent.job import AgentJob, NotifySettings
from gpuproof.backends.agent_job.notifications import notify_settings
from gpuproof.jobs.distribution.choose import ScriptUse, choose
from gpuproof.jobs.distribution.launchers import AUTO, LAUNCHERS, MIRRORED, NONE
from gpuproof.util.humanize import pluralize

if TYPE_CHECKING:
    from gpuproof.catalogue.model import Price
    from gpuproof.jobs.script_job import AnyJob


@dataclass(frozen=True)
class LaunchSettings:
    """How each host starts the script.

    Args:
        launcher: a key of `gpuproof.agent.launch.registry.LAUNCHERS`.
        processes_per_host: processes that the launcher starts on each host; `None` is one per GPU, or one without GPUs.
        max_restarts: how often torchrun restarts all ranks.
        stall_timeout: seconds without progress after which the job is stopped; `None` is never.
        sinks: where series and summary go, as in `gpuproof.agent.job.AgentJob`; `notify` likewise.
        because: why `auto` stands for this launcher; empty if the job names it.
    """

    launcher: str = NONE
    processes_per_host: int | None = None
    max_restarts: int = 0
    mpi_options: tuple[str, ...] = ()
    stall_timeout: float | None = None
    sinks: tuple[str, ...] = ()
    notify: NotifySettings | None = None
    because: str = ""
    notes: tuple[str, ...] = ()

    def describe(self, gpus: int, hosts: int) -> str | None:
        """The launcher and its processes in one line; None for one plain process.

        Args:
            gpus: number of GPUs of each host.
        """
        if self.because:
            return f"{self.launcher} ({self.because})"
        if self.launcher == NONE and hosts == 1:
            return None
        where = "on one host" if hosts == 1 else f"on each of {hosts} hosts"
        is_one = "processes_per_host" not in LAUNCHERS[self.launcher].options
        count = 1 if is_one else self.processes_per_host or gpus or 1
        return f"{self.launcher} ({_processes(count)} {where})"

    def apply(self, agent_job: AgentJob, cluster_key: str) -> AgentJob:
        """The agent's job with these settings.

        Args:
            cluster_key: see `new_cluster_key`.
        """
        return replace(
            agent_job,
            launcher=self.launcher,
            processes_per_host=self.processes_per_host,
            max_restarts=self.max_restarts,
            mpi_options=self.mpi_options,
            stall_timeout=self.stall_timeout,
            sinks=self.sinks,
            notify=self.notify,
            cluster_key=cluster_key,
        )


def script_uses(job: AnyJob, gpus: int) -> tuple[ScriptUse, ...]:
    """What the job's script uses, from which `launch_settings` chooses; empty where there is nothing to choose.

    Args:
        gpus: the largest number of GPUs that a host may have.
    """
    if job.kind != "training" or (gpus < 2 and job.instance_count == 1):
        return ()
    if job.distribution is not None and job.distribution.launcher != AUTO:
        return ()
    from gpuproof.jobs.distribution.script_use import find_uses  # most jobs have nothing to choose

    return find_uses(Path(job.source_dir), job.entry_point)


def launch_settings(
    job: AnyJob, uses: Sequence[ScriptUse], gpus: int, price: Price | None = None
) -> LaunchSettings:
    """The settings of a job; `auto` is resolved.

    Args:
        uses: what its script uses; see `script_uses`.
        gpus: number of GPUs of each host.
    """
    stall_timeout = None if job.stall_timeout is None else float(job.stall_timeout.seconds)
    common = LaunchSettings(stall_timeout=stall_timeout, sinks=job.sinks, notify=notify_settings(job, price))
    hosts, wanted = job.instance_count, job.distribution if job.kind == "training" else None
    if wanted is None:
        return replace(common, notes=tuple(_suggestions(job, uses, gpus)))
    if wanted.launcher == AUTO:
        choice = choose(uses, job.entry_point, gpus, hosts)
        notes = () if choice.is_certain else (_idle_note(gpus, hosts, price),)
        return replace(common, launcher=choice.launcher, because=choice.because, notes=notes)
    return replace(
        common,
        launcher=wanted.launcher,
        processes_per_host=wanted.processes_per_host,
        max_restarts=wanted.max_restarts,
        mpi_options=tuple(shlex.split(wanted.mpi_options)),
        notes=tuple(_count_notes(wanted.launcher, wanted.processes_per_host, gpus)),
    )


def new_cluster_key(job: AnyJob) -> str:
    """A random secret with which the agents of the job's hosts prove to each other that they belong together; empty for one host."""
    if job.instance_count < 2:
        return ""
    import secrets  # loads OpenSSL, which a job of one host does without

    return secrets.token_hex(32)


def _suggestions(job: AnyJob, uses: Sequence[ScriptUse], gpus: int) -> Iterator[str]:
    """A note if the script is written for a launcher and the job names none."""
    if not uses:
        return
    choice = choose(uses, job.entry_point, gpus, job.instance_count)
    # MirroredStrategy needs no launcher.
    if choice.launcher not in (NONE, MIRRORED):
        yield (
            "the job has no distribution: each host starts one process; distribution: auto would choose "
            f"{choice.launcher} ({choice.because})"
        )


def _idle_note(gpus: int, hosts: int, price: Price | None) -> str:
    """What is paid for and probably adds nothing, if one process on each host does all the work."""
    total = max(gpus, 1) * hosts
    cost = ""
    if price is not None:
        from gpuproof.catalogue.prices import cost_text  # only for jobs on AWS

        cost = f", {cost_text(price, hosts * (total - 1) / total)} of {cost_text(price, hosts)} an hour"
    what = "GPUs" if gpus else "hosts"
    return f"{total - 1} of {total} {what} may add nothing{cost}: one process uses one GPU, and every host does the same work"


def _count_notes(launcher: str, processes: int | None, gpus: int) -> Iterator[str]:
    """A note if there are more processes than GPUs, or fewer."""
    if processes is None or gpus == 0 or processes == gpus:
        return
    start = f"{launcher} starts {_processes(processes)} on each host"
    if processes < gpus:
        yield f"{start}, which has {gpus} GPUs: the others may stay idle"
    else:
        yield f"{start}, which has {pluralize(gpus, 'GPU')}: NCCL does not support several processes on one GPU"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"
