"""`torchrun`: torch's own launcher on each host, with the options of SageMaker's training toolkit."""

from __future__ import annotations

from pathlib import Path

from gpuproof.agent.launch.context import HostLaunch, LaunchContext
from gpuproof.agent.launch.pytorch import MASTER_PORT, torchrun_variables
from gpuproof.agent.ranks.main import RANK, TORCHRUN

_AGENT = Path(__file__).parents[3]
# Without it, torch 2.5 and later keeps one store over all attempts, and restarted ranks connect to their predecessors
# (seen with torch 2.13, also under c10d): each restart then costs two attempts.
_NEW_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"


def launch(context: LaunchContext) -> HostLaunch:
    """Start one torchrun on this host, which starts the ranks."""
    job = context.job
    options = [
        *("--nnodes", str(len(context.hosts))),
        *("--nproc_per_node", str(context.processes_per_host)),
        *_rendezvous(context),
        *(["--max_restarts", str(job.max_restarts)] if job.max_restarts else []),
    ]
    return HostLaunch(
        (job.python, str(_AGENT), TORCHRUN, *options, *_rank(context)),
        {
            **torchrun_variables(context),
            **({_NEW_STORE: "1"} if job.max_restarts else {}),
        },
    )


def _rendezvous(context: LaunchContext) -> list[str]:
    if len(context.hosts) == 1:
        return []
    first = context.hosts[0]
    address, port = context.address(first), context.port(MASTER_PORT, first)
    if context.job.max_restarts == 0:
        return [
            *("--master_addr", address),
            *("--master_port", str(port)),
            *("--node_rank", str(context.index)),
        ]
    # The static rendezvous restarts the ranks of one host only; c10d restarts those of all hosts.
    return [
        *("--rdzv_backend", "c10d"),
        *("--rdzv_endpoint", f"{address}:{port}"),
        *("--rdzv_id", context.job.run_id),
        *("--rdzv_conf", f"is_host={int(context.index == 0)}"),
        # It numbers the hosts by their addresses in the order of their texts, as SageMaker does by their names.
        *("--local_addr", context.address(context.job.current_host)),
    ]


def _rank(context: LaunchContext) -> list[str]:
    """The script's command, without the interpreter that torchrun adds."""
    program, *arguments = context.script
    if program != context.job.python:
        return ["--no_python", program, *arguments]
    return [str(_AGENT), RANK, *arguments]
