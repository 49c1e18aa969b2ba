"""Adapts a job to its container: SageMaker's files on hosts and channels take precedence over `job.json`."""

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
"""Maximum seconds between SIGTERM and SIGKILL: SageMaker kills the container after 120 s, and the verdict comes last.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StopTrainingJob.html"""


class InvalidContainerJob(Exception):
    """The job in the container is invalid; the message names the file and the reason."""


@dataclass(frozen=True)
class ContainerConfig:
    """SageMaker's files about a job; empty mappings for missing files.

    Args:
        resources: `resourceconfig.json`.
        channels: `inputdataconfig.json` without the channel that holds the agent (training).
        processing: `processingjobconfig.json` (processing).
    """

    resources: Mapping[str, Any] = field(default_factory=dict)
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    processing: Mapping[str, Any] = field(default_factory=dict)


def read_config(here: ContainerPaths, kind: str) -> ContainerConfig:
    """Read SageMaker's files for a training job or a processing job.

    Raises:
        InvalidContainerJob: a file does not contain a JSON object.
    """
    resources = read_object(here.resource_config(kind))
    if kind != "training":
        return ContainerConfig(resources, processing=read_object(here.processing_config))
    own = _channel_of(here)
    channels = {name: about for name, about in read_object(here.input_data_config).items() if name != own}
    return ContainerConfig(resources, channels)


def adapt_job(job: AgentJob, config: ContainerConfig, here: ContainerPaths) -> AgentJob:
    """Return the job with the values of this container.

    Raises:
        InvalidContainerJob: the image lacks the job's interpreter.
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
        # Nothing is mounted here; the mounts only decide where the code may be.
        mounts=tuple(_inputs(config.processing, here)),
        channels=tuple(config.channels) if here.input_data_config.exists() else job.channels,
        stop_grace=min(job.stop_grace, _LONGEST_GRACE),
        output=None,
    )


def interpreter(name: str) -> str:
    """The absolute path of the script's interpreter.

    Raises:
        InvalidContainerJob: the image has no such interpreter.
    """
    found = sys.executable if name in ("python", "python3") and sys.executable else shutil.which(name)
    if not found:
        raise InvalidContainerJob(f"the job requires {name}, which is not on this image's PATH")
    return found


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; returns an empty one if the file does not exist.

    Raises:
        InvalidContainerJob: the file has other content.
    """
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidContainerJob(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InvalidContainerJob(f"{path} is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidContainerJob(f"{path} does not contain a JSON object")
    return document


def _channel_of(here: ContainerPaths) -> str | None:
    """The channel that holds the agent."""
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
