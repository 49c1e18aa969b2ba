"""What a model server starts: container, model data and variables of one production variant."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

STARTUP_TIMEOUT_S = 8 * 60.0
"""Seconds until a container must be healthy, unless the variant specifies otherwise:
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html"""


class ServingFailed(Exception):
    """A container does not serve; the message is the endpoint's FailureReason."""


@dataclass(frozen=True)
class ModelData:
    """Location of a model in S3.

    Args:
        uri: its address.
        packed: whether it is a single `.tar.gz`.
        prefix: whether the address is a prefix, as of a folder.
    """

    uri: str
    packed: bool = True
    prefix: bool = False


@dataclass(frozen=True)
class ContainerSpec:
    """The container of one production variant.

    Args:
        endpoint: the endpoint's name.
        variant: the variant's name.
        region: the endpoint's region.
        image: the container image.
        model_data: location of the model; None if there is none.
        environment: the model's own variables.
        role: ARN of the model's role.
        folder: for the disks of the variant's instances.
        isolated: whether the model has network isolation, and so no network and no credentials.
        startup_timeout: seconds until it must be healthy.
        log_group: the log group of a batch transform; empty for an endpoint's own.
        models: prefix in S3 of the models of a multi-model endpoint; empty for one model.
        additional: further data of the model, by the name of its channel.
        instance_type: whose utilization is published; empty for a serverless endpoint, which has no instances.
        volume_gib: `VolumeSizeInGB` of the variant.
    """

    endpoint: str
    variant: str
    region: str
    image: str
    model_data: ModelData | None
    environment: dict[str, str]
    role: str | None
    folder: Path
    isolated: bool = False
    startup_timeout: float = STARTUP_TIMEOUT_S
    log_group: str = ""
    models: str = ""
    additional: tuple[tuple[str, ModelData], ...] = ()
    instance_type: str = ""
    volume_gib: int | None = None


def model_data(container: dict[str, Any]) -> ModelData | None:
    """The `ModelDataUrl` or `ModelDataSource` of a container definition."""
    source = (container.get("ModelDataSource") or {}).get("S3DataSource")
    if source is not None:
        return _from_source(source)
    url = container.get("ModelDataUrl")
    return ModelData(url) if url else None


def additional_data(container: dict[str, Any]) -> tuple[tuple[str, ModelData], ...]:
    """The `AdditionalModelDataSources` of a container definition, with the names of their channels."""
    sources = container.get("AdditionalModelDataSources") or ()
    return tuple((source["ChannelName"], _from_source(source["S3DataSource"])) for source in sources)


def _from_source(source: dict[str, Any]) -> ModelData:
    return ModelData(
        source["S3Uri"],
        packed=source.get("CompressionType") == "Gzip",
        prefix=source.get("S3DataType") == "S3Prefix",
    )
