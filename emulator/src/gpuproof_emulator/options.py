"""The emulator's options."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """How the emulator behaves.

    Args:
        state: folder for all of its state.
        port: on loopback; 0 selects a free one.
        pythons: interpreters by framework (`tensorflow`, `pytorch`, …) for the containers' `python3`.
        python: the interpreter for images of any other framework.
        environment: variables for every container, in addition to SageMaker's.
        stop_grace: seconds between SIGTERM and SIGKILL; SageMaker's is 120.
        hold: seconds for which an SDK's Describe request is held while its job runs and nothing changes.
        max_hosts: maximum number of instances of one job.
        role: whether the account gets the roles and the instance profile that GPUproof looks for, where they are missing.
        enforce_iam: whether requests of users and roles are rejected that their policies do not allow.
        boot_instances: whether EC2 instances that are launched with user data boot it.
        lifecycle_seconds: time limit of each lifecycle script of a notebook instance; SageMaker's is 300.
        checkpoint_interval: seconds between uploads of new checkpoints and continuous outputs.
        regions: that are enabled for the account; empty for all that moto has.
    """

    state: Path
    port: int = 0
    pythons: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_grace: float = 120.0
    hold: float = 20.0
    max_hosts: int = 8
    role: bool = True
    enforce_iam: bool = False
    boot_instances: bool = False
    lifecycle_seconds: float = 300.0
    checkpoint_interval: float = 1.0
    regions: frozenset[str] = frozenset()
