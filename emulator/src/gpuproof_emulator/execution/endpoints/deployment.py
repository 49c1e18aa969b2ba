"""The variants of an endpoint that are in service, and what each of them starts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.endpoints import serverless
from gpuproof_emulator.execution.endpoints.container_spec import (
    STARTUP_TIMEOUT_S,
    ContainerSpec,
    ServingFailed,
    additional_data,
    model_data,
)
from gpuproof_emulator.execution.endpoints.data_capture import DataCapture
from gpuproof_emulator.execution.endpoints.serverless import ServerlessModel
from gpuproof_emulator.protocol import AwsRequest, AwsResponse
from gpuproof_emulator.store import MODEL, Resource

MAX_BODY = 6 << 20
"""Bytes of the body of an invocation: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html"""


class RunningModel(Protocol):
    """A container that serves `/ping` and `/invocations`."""

    def invoke(self, request: AwsRequest, timeout: float | None = None) -> AwsResponse:
        """Forward an invocation and return the container's response.

        Args:
            timeout: seconds within which it must respond; SageMaker's limit if None.
        """
        ...

    def stop(self) -> None:
        """End the container and everything in it."""
        ...


class ModelServer(Protocol):
    """Starts containers of models."""

    def start(self, spec: ContainerSpec) -> RunningModel:
        """Start a container and wait until it responds to `/ping`.

        Raises:
            ServingFailed: it does not; the message is the endpoint's FailureReason.
        """
        ...

    def shutdown(self) -> None:
        """End all containers at once, including those that are starting."""
        ...


@dataclass
class Variant:
    """A production variant in service.

    Args:
        name: its name.
        model: its container.
        weight: its share of the requests.
        max_body: bytes of the body of an invocation.
        models: whether it has several models.
    """

    name: str
    model: RunningModel
    weight: float = 1.0
    max_body: int = MAX_BODY
    models: bool = False


@dataclass
class Deployment:
    """The variants of one endpoint.

    Args:
        variants: by name.
        asynchronous: whether the endpoint takes its input from S3.
        capture: stores invocations; None if the endpoint captures no data.
    """

    variants: dict[str, Variant] = field(default_factory=dict[str, Variant])
    asynchronous: bool = False
    capture: DataCapture | None = None

    def choose_variant(self) -> str:
        """The variant for a request that names none."""
        weights = [variant.weight for variant in self.variants.values()]
        return random.choices(list(self.variants), weights if any(weights) else None)[0]

    def stop(self) -> None:
        """End the containers."""
        for variant in self.variants.values():
            variant.model.stop()


def start_variant(server: ModelServer, spec: ContainerSpec, variant: Mapping[str, Any]) -> Variant:
    """Bring a variant into service.

    Args:
        variant: of the endpoint configuration.

    Raises:
        ServingFailed: its container does not serve.
    """
    name, weight = variant["VariantName"], variant.get("InitialVariantWeight", 1.0)
    config = variant.get("ServerlessConfig")
    if config is None:
        return Variant(name, server.start(spec), weight, models=bool(spec.models))
    model = ServerlessModel(server, spec, config["MaxConcurrency"])
    model.verify()
    return Variant(name, model, weight, serverless.MAX_BODY)


def container_spec(
    context: Context, endpoint: Resource, variant: Mapping[str, Any], folder: Path
) -> ContainerSpec:
    """The container of a variant.

    Args:
        variant: of the endpoint configuration.
        folder: for its disks.

    Raises:
        ServingFailed: the model no longer exists, or is of a kind that the emulator does not serve.
    """
    model = context.store.get(MODEL, endpoint.region, variant["ModelName"])
    if model is None:
        raise ServingFailed(f"The model {variant['ModelName']} no longer exists.")
    containers = model.document.get("Containers") or [model.document["PrimaryContainer"]]
    if len(containers) > 1:
        raise ServingFailed(
            f"The model {variant['ModelName']} has several containers; this emulator supports one container."
        )
    (container,) = containers
    several = container.get("Mode", "SingleModel") == "MultiModel"
    limit = serverless.STARTUP_TIMEOUT_S if variant.get("ServerlessConfig") else STARTUP_TIMEOUT_S
    return ContainerSpec(
        endpoint=endpoint.name,
        variant=variant["VariantName"],
        region=endpoint.region,
        image=container.get("Image", ""),
        model_data=None if several else model_data(container),
        additional=additional_data(container),
        environment=container.get("Environment") or {},
        role=model.document.get("ExecutionRoleArn"),
        folder=folder,
        isolated=bool(model.document.get("EnableNetworkIsolation")),
        startup_timeout=variant.get("ContainerStartupHealthCheckTimeoutInSeconds", limit),
        models=container["ModelDataUrl"] if several else "",
        instance_type=variant.get("InstanceType", ""),
        volume_gib=variant.get("VolumeSizeInGB"),
    )
