"""What a user submitted, according to a job's description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.explain.context import JobFacts

_CODE_CHANNELS = ("gpuproof", "code")
_TOOLKIT = "sagemaker_"
"""Hyperparameters of this prefix are for AWS's toolkit, not for the script."""
_LAUNCHERS = {
    "sagemaker_torch_distributed_enabled": "torchrun",
    "sagemaker_mpi_enabled": "mpirun",
}


def job_facts(description: Mapping[str, Any], *, is_ours: bool) -> JobFacts:
    """The channels, environment and hyperparameters of a job.

    Args:
        description: the answer of DescribeTrainingJob or DescribeProcessingJob.
        is_ours: whether GPUproof created it, so that a channel of it is the source.
    """
    channels = [channel["ChannelName"] for channel in description.get("InputDataConfig", ())]
    code = next((name for name in _CODE_CHANNELS if name in channels), None) if is_ours else None
    given: Mapping[str, str] = description.get("HyperParameters", {})
    return JobFacts(
        channels=tuple(name for name in channels if name != code),
        environment=description.get("Environment", {}),
        hyperparameters=tuple(name for name in given if not name.startswith(_TOOLKIT)),
        launcher=next((launcher for name, launcher in _LAUNCHERS.items() if given.get(name) == "true"), None),
    )
