"""What can be asked of the emulator when it is started."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """How the emulator behaves.

    Args:
        state: the folder of everything that it keeps.
        port: on loopback; 0 takes a free one.
        pythons: interpreters by framework (`tensorflow`, `pytorch`, …) for the containers' `python3`.
        python: the interpreter for images of any other framework.
        environment: variables for every container, beside SageMaker's own.
        stop_grace: seconds between SIGTERM and SIGKILL; SageMaker's own is 120.
        hold: seconds for which an SDK's Describe is held while its job goes on and nothing changes.
        most_hosts: how many instances one job may have.
        checkpoint_interval: seconds between two looks for new checkpoints and continuous outputs.
    """

    state: Path
    port: int = 0
    pythons: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_grace: float = 120.0
    hold: float = 20.0
    most_hosts: int = 8
    checkpoint_interval: float = 1.0
