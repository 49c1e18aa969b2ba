"""SageMaker's contract for a traced script: the folders and variables of a training job on one host."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuproof.agent.contract import Machine, lay_out, script_environment
from gpuproof.agent.job import AgentJob
from gpuproof.agent.paths import ContractPaths


@dataclass(frozen=True)
class Contract:
    """What a script finds of its job.

    Args:
        channels: folders with input data, by channel.
        hyperparameters: of the job.
    """

    channels: Mapping[str, str] = field(default_factory=dict[str, str])
    hyperparameters: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def mounts(self) -> dict[str, str]:
        """Absolute folders, by their paths below `/opt/ml`."""
        return {f"input/data/{name}": str(Path(place).absolute()) for name, place in self.channels.items()}


NO_CONTRACT = Contract()
"""Without channels and hyperparameters."""


def create_contract(contract: Contract, script: Path, gpus: int, ml: Path) -> dict[str, str]:
    """Create the contract's folders and configuration files, and return its variables.

    Args:
        contract: of the job.
        script: the entry point.
        gpus: of the host.
        ml: an empty folder, which is also `/opt/ml` where the machine allows that.
    """
    job = AgentJob(
        run_id="plan",
        job_name="plan",
        kind="training",
        entry_point=script.name,
        python="python3",
        checkpoints=str(ml / "checkpoints"),
        hyperparameters=contract.hyperparameters,
        channels=tuple(contract.channels),
    )
    lay_out(job, ml)
    machine = Machine(cpus=os.cpu_count() or 1, gpus=gpus)
    channels = {
        f"SM_CHANNEL_{name.upper()}": str(Path(place).absolute()) for name, place in contract.channels.items()
    }
    return {**script_environment(job, ContractPaths(str(ml)), machine), **channels}
