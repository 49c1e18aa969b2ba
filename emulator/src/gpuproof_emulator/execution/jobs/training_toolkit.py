"""The agent in place of an image's own `train`, for training jobs without a ContainerEntrypoint.

The jobs of SageMaker's SDK v2 are of this kind: they name their script in hyperparameters and leave the rest to the
image. An interpreter with AWS's own training toolkit runs them as its image would.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuproof.agent.paths import ContainerPaths
from gpuproof_emulator.execution.agent_archive import AGENT, place_agent
from gpuproof_emulator.execution.environment import interpreter_for
from gpuproof_emulator.execution.host import Host
from gpuproof_emulator.execution.s3_sync import S3Location, download
from gpuproof_emulator.options import Options

TOOLKIT_PROGRAM = "train"
"""The program that SageMaker starts in an image for a job without a ContainerEntrypoint."""
_TOOLKIT_PACKAGE = b"sagemaker_training"
_SUBMIT_DIRECTORY = "sagemaker_submit_directory"


def has_training_toolkit(options: Options, image: str) -> bool:
    """Whether `sagemaker-training` is installed next to the interpreter that replaces an image's own."""
    program = Path(interpreter_for(options, image)).parent / TOOLKIT_PROGRAM
    try:
        return _TOOLKIT_PACKAGE in program.read_bytes()
    except OSError:
        return False


def prepare_toolkit(s3: Any, hosts: list[Host], hyperparameters: Mapping[str, str], state: Path) -> list[str]:
    """Place the job's source and the agent on every host; returns the command that replaces the image's `train`.

    Args:
        state: the emulator's state folder, where the agent's archive is cached.

    Raises:
        DownloadFailed: the source does not exist.
    """
    source = _text(hyperparameters.get(_SUBMIT_DIRECTORY, ""))
    key = secrets.token_hex(32)
    for host in hosts:
        folder = host.ml / "input" / "toolkit"
        folder.mkdir(parents=True, exist_ok=True)
        place_agent(state, folder)
        if len(hosts) > 1:
            path = ContainerPaths(folder).cluster_key
            path.touch(mode=0o600)
            path.write_text(key)
        if source.startswith("s3://"):
            location = S3Location.parse(source)
            download(s3, location.bucket, {location.key: ContainerPaths(folder).toolkit_source.name}, folder)
    inside = "/opt/ml/input/toolkit"
    return ["python3", f"{inside}/{AGENT}", "--toolkit", inside]


def _text(value: str) -> str:
    # The SDK writes every hyperparameter as JSON.
    try:
        return str(json.loads(value))
    except ValueError:
        return value
