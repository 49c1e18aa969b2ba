"""What stands for an image's own `train` where a training job names no ContainerEntrypoint: the agent knows how.

So SageMaker's SDK v2 runs here, whose jobs name their script in hyperparameters and leave the rest to the image.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuproof.agent.paths import ContainerPaths
from gpuproof.emulator.execution.agent_archive import AGENT, put_agent
from gpuproof.emulator.execution.host import Host
from gpuproof.emulator.execution.s3_sync import Location, bring

_SUBMIT_DIRECTORY = "sagemaker_submit_directory"


def prepare_toolkit(s3: Any, hosts: list[Host], hyperparameters: Mapping[str, str], state: Path) -> list[str]:
    """Bring the job's source and the agent to every host; the command that does what the image's `train` would do.

    Args:
        state: where the agent's file is kept.

    Raises:
        DownloadFailed: the source is not there.
    """
    source = _text(hyperparameters.get(_SUBMIT_DIRECTORY, ""))
    for host in hosts:
        folder = host.ml / "input" / "toolkit"
        folder.mkdir(parents=True, exist_ok=True)
        put_agent(state, folder)
        if source.startswith("s3://"):
            place = Location.parse(source)
            bring(s3, place.bucket, {place.key: ContainerPaths(folder).toolkit_source.name}, folder)
    inside = "/opt/ml/input/toolkit"
    return ["python3", f"{inside}/{AGENT}", "--toolkit", inside]


def _text(value: str) -> str:
    # The SDK writes every hyperparameter as JSON.
    try:
        return str(json.loads(value))
    except ValueError:
        return value
