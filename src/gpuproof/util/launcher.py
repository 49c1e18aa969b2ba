"""What started this process: the variables of srun, mpirun, torchrun and Kubernetes, and SageMaker's files, name the job, its size and
this host.

Sources: https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES,
https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html, https://docs.pytorch.org/docs/stable/elastic/run.html,
https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode; those of Hydra as MPICH 4's
`mpiexec` sets them
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from gpuproof.util.host_list import expand_hosts
from gpuproof.util.sagemaker_container import find_container

SLURM, OPEN_MPI, HYDRA, TORCHRUN, KUBERNETES = "Slurm", "Open MPI", "Hydra", "torchrun", "Kubernetes"
SAGEMAKER = "SageMaker"
_SLURM_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


@dataclass(frozen=True)
class Member:
    """One process of a job, as its launcher describes it; `None` is unknown.

    Args:
        group: name of the job, the same in all of its processes.
        host: name of this host in the job.
        launcher: what started the process; `None` if only the user has named the job.
        local_size: processes of the job on this host.
        size: processes of the job on all hosts.
        hosts: number of hosts.
        host_names: names of all hosts, if they are known.
    """

    group: str
    host: str
    launcher: str | None = None
    local_size: int | None = None
    size: int | None = None
    hosts: int | None = None
    host_names: tuple[str, ...] = ()

    @property
    def has_peers(self) -> bool:
        """Whether there are, or may be, other processes of the job that share its verdict."""
        if self.launcher == SAGEMAKER:
            return False  # one process on each host, which has a verdict and an exit code of its own
        return self.size != 1 or (self.hosts or 1) > 1

    @property
    def least_hosts(self) -> int:
        """The number of hosts; if it is unknown, the smallest that is possible."""
        is_spread = self.size is not None and self.local_size is not None and self.size > self.local_size
        return self.hosts or (2 if is_spread else 1)


def find_member(
    environ: Mapping[str, str], group: str | None = None, hosts: int | None = None
) -> Member | None:
    """This process as a member of a job; `None` if nothing says that it is one.

    A launcher that another one started, such as torchrun under srun, counts first.

    Args:
        group: a name that the user has given to the job.
        hosts: a number of hosts that the user has given.
    """
    found = next(
        (
            member
            for read in (_torchrun, _open_mpi, _hydra, _slurm, _sagemaker, _kubernetes)
            for member in read(environ)
        ),
        None,
    )
    if found is None:
        if group is None:
            return None
        found = Member(group, _host(environ), hosts=hosts)
    if group is not None:
        found = replace(found, group=group)
    if hosts is not None and hosts != found.hosts:
        names = found.host_names if len(found.host_names) == hosts else ()
        found = replace(found, hosts=hosts, host_names=names)
    return found


def monitor_key(member: Member, environ: Mapping[str, str]) -> str:
    """What the processes of a job on this host share, and no others: each cluster counts its jobs from 1.

    Processes that a launcher starts again after a failure are a job of their own.
    """
    apart = ("SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT")
    return "\n".join([member.group, member.host, *(environ.get(name, "") for name in apart)])


def _host(environ: Mapping[str, str]) -> str:
    """The name of this host; Slurm may have several nodes on one machine."""
    return environ.get("SLURMD_NODENAME") or socket.gethostname()


def _torchrun(environ: Mapping[str, str]) -> Iterator[Member]:
    run, local_size = environ.get("TORCHELASTIC_RUN_ID"), _count(environ, "LOCAL_WORLD_SIZE")
    if not run or local_size is None:
        return
    if run == "none":  # the default, which all jobs without --rdzv-id have
        address = "-".join(environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT"))
        run = address.strip("-") or run
    yield Member(
        f"torchrun-{run}",
        _host(environ),
        TORCHRUN,
        local_size,
        _count(environ, "WORLD_SIZE"),
        _count(environ, "GROUP_WORLD_SIZE"),
    )


def _open_mpi(environ: Mapping[str, str]) -> Iterator[Member]:
    size, local_size = (
        _count(environ, "OMPI_COMM_WORLD_SIZE"),
        _count(environ, "OMPI_COMM_WORLD_LOCAL_SIZE"),
    )
    # Version 5 and 4 in turn; both name the launcher's session and the job in it.
    job = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid")
    if size is None or local_size is None or not job:
        return
    host = environ.get("SLURMD_NODENAME") or environ.get("PMIX_HOSTNAME") or _host(environ)
    yield Member(f"mpirun-{_short(job)}", host, OPEN_MPI, local_size, size)


def _hydra(environ: Mapping[str, str]) -> Iterator[Member]:
    """MPICH and Intel MPI. Their processes know no name of the job but that of the batch system's."""
    size, local_size = _count(environ, "PMI_SIZE"), _count(environ, "MPI_LOCALNRANKS")
    if size is None or local_size is None:
        return
    batch_job = environ.get("SLURM_JOB_ID")
    job = environ.get("PMI_JOBID") or (f"slurm-{batch_job}" if batch_job else f"of-{os.getppid()}")
    host = environ.get("SLURMD_NODENAME") or environ.get("PMI_HOSTNAME") or _host(environ)
    yield Member(f"mpiexec-{_short(job)}", host, HYDRA, local_size, size)


def _slurm(environ: Mapping[str, str]) -> Iterator[Member]:
    job, step = environ.get("SLURM_JOB_ID"), environ.get("SLURM_STEP_ID")
    if not job or environ.get("SLURM_PROCID") is None:
        return  # a shell of salloc
    if step is None:  # the script of sbatch: one process, whatever the job's tasks are
        yield Member(f"slurm-{job}.batch", _host(environ), SLURM, 1, 1, 1, (_host(environ),))
        return
    node = _count(environ, "SLURM_NODEID", smallest=0)
    names: list[str] = []
    with suppress(ValueError):
        names = expand_hosts(environ.get("SLURM_STEP_NODELIST", ""))
    tasks = _tasks_per_node(environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    local_size = tasks[node] if node is not None and node < len(tasks) else None
    hosts = _count(environ, "SLURM_STEP_NUM_NODES") or len(names) or None
    yield Member(
        f"slurm-{job}.{step}",
        _host(environ),
        SLURM,
        local_size,
        _count(environ, "SLURM_STEP_NUM_TASKS"),
        hosts,
        tuple(names) if len(names) == hosts else (),
    )


def _tasks_per_node(text: str) -> list[int]:
    """Tasks of each node: `2(x3),1` is 2, 2, 2, 1."""
    tasks: list[int] = []
    for count, times in _SLURM_TASKS.findall(text):
        tasks += [int(count)] * int(times or 1)
    return tasks


def _sagemaker(environ: Mapping[str, str]) -> Iterator[Member]:
    container = find_container(environ)
    if container is None or not container.job:
        return
    hosts = len(container.hosts)
    # A launcher in the container, such as torchrun, has variables of its own.
    yield Member(f"sagemaker-{container.job}", container.host, SAGEMAKER, 1, hosts, hosts, container.hosts)


def _kubernetes(environ: Mapping[str, str]) -> Iterator[Member]:
    index = environ.get("JOB_COMPLETION_INDEX")
    if index is None or not environ.get("KUBERNETES_SERVICE_HOST"):
        return
    host = environ.get("HOSTNAME") or socket.gethostname()
    # A pod of an indexed Job has the host name JOB-INDEX.
    if host.endswith(f"-{index}"):
        yield Member(f"job-{host[: -len(index) - 1]}", host, KUBERNETES, local_size=1)
    else:  # in the node's network, whose name it has: only the user knows the job's
        yield Member(f"job-of-{host}", f"{host}-{index}", KUBERNETES, local_size=1)


def _count(environ: Mapping[str, str], name: str, smallest: int = 1) -> int | None:
    try:
        value = int(environ.get(name, ""))
    except ValueError:
        return None
    return value if value >= smallest else None


def _short(job: str) -> str:
    """A name for people and for files: `prterun-host-123@1` without what stands for the program."""
    return re.sub(r"[^\w.-]+", "-", job.replace("prterun-", "", 1)).strip("-")
