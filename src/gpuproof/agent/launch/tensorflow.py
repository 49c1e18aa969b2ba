"""TensorFlow's launchers: one process of the script on each host, which `TF_CONFIG` connects.

The variables are those of SageMaker's TensorFlow toolkit; see `gpuproof.util.tf_config`.
"""

from __future__ import annotations

import json
from pathlib import Path

from gpuproof.agent.launch.context import HostLaunch, LaunchContext
from gpuproof.util.tf_config import TfConfig, parameter_server_config, server_task, worker_config

WITH_SERVER = "--parameter-server"
"""The agent's program that runs the script next to a parameter server; see `server_host.py`."""

_AGENT = Path(__file__).parents[3]


def mirrored(context: LaunchContext) -> HostLaunch:
    """One process for all GPUs of the host; without `TF_CONFIG`, so that hosts are independent."""
    return HostLaunch(context.script)


def multi_worker_mirrored(context: LaunchContext) -> HostLaunch:
    """One worker on each host; on a single host too, as in SageMaker's toolkit."""
    return HostLaunch(
        context.script, _variables(worker_config(context.hosts, context.index, context.endpoint))
    )


def parameter_server(context: LaunchContext) -> HostLaunch:
    """Master or worker, and a parameter server next to it; a single host just runs the script, as on SageMaker."""
    if len(context.hosts) < 2:
        return HostLaunch(context.script)
    config = parameter_server_config(context.hosts, context.index, context.endpoint)
    server = json.dumps(server_task(config, context.index))
    # -I: a module next to the script must not replace one that the agent imports.
    program = (context.job.python, "-I", str(_AGENT), WITH_SERVER, server)
    return HostLaunch((*program, *context.script), _variables(config))


def _variables(config: TfConfig) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps(config)}
