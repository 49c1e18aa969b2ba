"""`none`: one process of the script on each host, as SageMaker starts it without `distribution`."""

from __future__ import annotations

from gpuproof.agent.launch.context import HostLaunch, LaunchContext


def launch(context: LaunchContext) -> HostLaunch:
    """The script itself."""
    return HostLaunch(context.script)
