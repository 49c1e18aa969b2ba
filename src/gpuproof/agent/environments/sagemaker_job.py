"""A job as it stands in a container: what SageMaker says of hosts and channels goes before what `job.json` says."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from gpuproof.agent.isolation.isolation import CONTAINER
from gpuproof.agent.job import AgentJob, Mount
from gpuproof.agent.paths import CONTRACT_ROOT, ContainerPaths

_LONGEST_GRACE = 110.0
"""Seconds that a script has after SIGTERM: SageMaker kills the container after 120, and the verdict comes last.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopTrainingJob.html"""


class NotUnderstood(Exception):
    """What lies in the container cannot be understood; the message says which file and why."""


@dataclass(frozen=True)
class ContainerConfig:
    """What SageMaker wrote about a job; empty where it wrote nothing.

    Args:
        resources: `resourceconfig.json`.
        channels: `inputdataconfig.json`, but for the channel in which the agent came (training).
        processing: `processingjobconfig.json` (processing).
    """

    resources: Mapping[str, Any] = field(default_factory=dict)
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    processing: Mapping[str, Any] = field(default_factory=dict)


def read_config(here: ContainerPaths, kind: str) -> ContainerConfig:
    """What SageMaker wrote for a training job or a processing job.

    Raises:
        NotUnderstood: a file is no JSON object.
    """
    resources = read_object(here.resource_config(kind))
    if kind != "training":
        return ContainerConfig(resources, processing=read_object(here.processing_config))
    own = _channel_of(here)
    channels = {name: about for name, about in read_object(here.input_data_config).items() if name != own}
    return ContainerConfig(resources, channels)


def job_here(job: AgentJob, config: ContainerConfig, here: ContainerPaths) -> AgentJob:
    """The job as this container shall carry it out.

    Raises:
        NotUnderstood: its interpreter is not in this image.
    """
    cluster = config.processing.get("ProcessingResources", {}).get("ClusterConfig", {})
    return replace(
        job,
        python=interpreter(job.python),
        isolation=CONTAINER,
        hosts=tuple(config.resources.get("hosts", job.hosts)),
        current_host=config.resources.get("current_host", job.current_host),
        instance_type=config.resources.get("current_instance_type")
        or cluster.get("InstanceType")
        or job.instance_type,
        # Nothing is mounted here; they tell where the code may lie.
        mounts=tuple(_inputs(config.processing, here)),
        channels=tuple(config.channels) if here.input_data_config.exists() else job.channels,
        stop_grace=min(job.stop_grace, _LONGEST_GRACE),
        output=None,
    )


def interpreter(name: str) -> str:
    """The absolute path of the script's interpreter.

    Raises:
        NotUnderstood: there is none of that name.
    """
    found = sys.executable if name in ("python", "python3") and sys.executable else shutil.which(name)
    if not found:
        raise NotUnderstood(f"the job wants {name}, and this image has none on its PATH")
    return found


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object in a file; empty where there is no such file.

    Raises:
        NotUnderstood: it is something else.
    """
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise NotUnderstood(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise NotUnderstood(f"{path} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise NotUnderstood(f"{path} holds no JSON object")
    return document


def _channel_of(here: ContainerPaths) -> str | None:
    """The channel in which the agent came."""
    try:
        return here.folder.relative_to(here.channels).parts[0]
    except (ValueError, IndexError):
        return None


def _inputs(processing: Mapping[str, Any], here: ContainerPaths) -> list[Mount]:
    places = [
        (about.get("S3Input") or about.get("DatasetDefinition") or {}).get("LocalPath")
        for about in processing.get("ProcessingInputs") or ()
    ]
    return [
        Mount(place, str(PurePosixPath(place).relative_to(CONTRACT_ROOT)))
        for place in places
        if place and place.startswith(f"{CONTRACT_ROOT}/") and Path(place) != here.folder
    ]
