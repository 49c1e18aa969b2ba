"""Endpoints: how a model's container is started, kept and asked.

A `ModelServer` starts containers (`running/model_server.py` with GPUproof's own server). Everything here is what SageMaker
does around it: status, updates without a gap, and which variant is asked.
"""

from __future__ import annotations

import random
import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gpuproof.emulator.protocol import ACCOUNT, Answer, AwsError, AwsRequest
from gpuproof.emulator.store import Resource

if TYPE_CHECKING:
    from gpuproof.emulator.emulator import Emulator

_STARTUP_S = 8 * 60.0
"""How long a container may take until it is healthy, where the variant says nothing:
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html"""


@dataclass(frozen=True)
class ModelData:
    """Where a model lies in S3.

    Args:
        uri: its address.
        packed: whether it is one `.tar.gz`.
        prefix: whether the address is that of a folder.
    """

    uri: str
    packed: bool = True
    prefix: bool = False


@dataclass(frozen=True)
class ModelContainer:
    """What a server has to start.

    Args:
        endpoint: the endpoint's name.
        variant: the variant's name.
        region: where it is.
        image: the container image.
        model_data: where the model lies; None if there is none.
        environment: the model's own variables.
        role: the role of the model.
        folder: for the disks of the variant's instances.
        startup: seconds that it may take until it is healthy.
    """

    endpoint: str
    variant: str
    region: str
    image: str
    model_data: ModelData | None
    environment: dict[str, str]
    role: str | None
    folder: Path
    startup: float = _STARTUP_S


class RunningModel(Protocol):
    """A container that answers `/ping` and `/invocations`."""

    def invoke(self, request: AwsRequest) -> Answer:
        """The container's own answer to an invocation."""
        ...

    def stop(self) -> None:
        """End the container and everything in it."""
        ...


class ModelServer(Protocol):
    """Starts containers of models."""

    def start(self, container: ModelContainer) -> RunningModel:
        """Start a container and wait until it answers `/ping`.

        Raises:
            ServingFailed: it does not; the message is the endpoint's FailureReason.
        """
        ...

    def shutdown(self) -> None:
        """End all containers at once, those that are being started too."""
        ...


class ServingFailed(Exception):
    """A container that does not serve; the message is the endpoint's FailureReason."""


@dataclass
class _InService:
    """The containers of one endpoint.

    Args:
        models: by the variant's name.
        weights: how much of the requests each gets, in the same order.
    """

    models: dict[str, RunningModel] = field(default_factory=dict)
    weights: list[float] = field(default_factory=list)

    def chosen(self) -> str:
        """The variant that a request goes to that names none."""
        weights = self.weights if any(self.weights) else None
        return random.choices(list(self.models), weights)[0]

    def stop(self) -> None:
        for model in self.models.values():
            model.stop()


class Endpoints:
    """The endpoints that are in service.

    Args:
        emulator: everything there is.
        server: starts the containers.
    """

    def __init__(self, emulator: Emulator, server: ModelServer) -> None:
        self._emulator = emulator
        self._server = server
        self._serving: dict[tuple[str, str], _InService] = {}
        self._lock = threading.Lock()
        self._ended = False

    def create(self, endpoint: Resource, config: Resource) -> None:
        """Bring a new endpoint into service."""
        self._work(endpoint, config)

    def update(self, endpoint: Resource, config: Resource) -> None:
        """Bring another configuration into service; the old one answers until then."""
        self._work(endpoint, config)

    def delete(self, endpoint: Resource) -> None:
        """Take an endpoint out of service."""
        with self._lock:
            serving = self._serving.pop((endpoint.region, endpoint.name), _InService())
        serving.stop()

    def restore(self) -> None:
        """Bring the endpoints into service that were when the emulator last ended."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for endpoint in self._emulator.store.all("endpoint"):
            if endpoint.document["EndpointStatus"] == "Failed":
                continue
            name = endpoint.document["EndpointConfigName"]
            config = self._emulator.store.get("endpoint-config", endpoint.region, name)
            if config is None:
                self._failed(
                    endpoint, f"Could not find endpoint configuration {name} when the emulator started."
                )
                continue
            with self._emulator.store.changing(endpoint):
                endpoint.document["EndpointStatus"] = "Creating"
            self._work(endpoint, config)

    def shutdown(self) -> None:
        """End all containers. What the endpoints are stays: they come back with `restore`."""
        with self._lock:
            self._ended = True
            self._serving.clear()
        self._server.shutdown()

    def invoke(self, request: AwsRequest) -> Answer:
        """`InvokeEndpoint` and `InvokeEndpointWithResponseStream`.

        Raises:
            AwsError: there is no such endpoint in service, or it does not answer.
        """
        name = request.path.split("/")[2]
        with self._lock:
            serving = self._serving.get((request.region, name))
        if serving is None:
            raise AwsError("ValidationError", f"Endpoint {name} of account {ACCOUNT} not found.")
        if request.path.endswith("/async-invocations"):
            raise AwsError("ValidationError", f"Endpoint {name} of account {ACCOUNT} is not asynchronous.")
        variant = request.header("x-amzn-sagemaker-target-variant") or serving.chosen()
        if variant not in serving.models:
            raise AwsError("ValidationError", f"Variant {variant} not found for the endpoint {name}.")
        return serving.models[variant].invoke(request)

    @property
    def _folder(self) -> Path:
        return self._emulator.options.state / "endpoints"

    def _work(self, endpoint: Resource, config: Resource) -> None:
        threading.Thread(target=self._start, args=(endpoint, config), name=endpoint.name, daemon=True).start()

    def _start(self, endpoint: Resource, config: Resource) -> None:
        started = _InService()
        try:
            for variant in config.document["ProductionVariants"]:
                model = self._server.start(self._container(endpoint, variant))
                started.models[variant["VariantName"]] = model
                started.weights.append(variant.get("InitialVariantWeight", 1.0))
        except Exception as error:  # noqa: BLE001 - whatever it is, the endpoint must not be Creating for ever
            started.stop()
            if not self._ended:
                self._failed(endpoint, str(error))
            return
        with self._lock:
            old = self._serving.get((endpoint.region, endpoint.name), _InService())
            ended = self._ended
            if not ended:
                self._serving[endpoint.region, endpoint.name] = started
        if ended:
            started.stop()
            return
        self._now_in_service(endpoint, config)
        old.stop()

    def _container(self, endpoint: Resource, variant: dict[str, Any]) -> ModelContainer:
        model = self._emulator.store.get("model", endpoint.region, variant["ModelName"])
        if model is None:
            raise ServingFailed(f"The model {variant['ModelName']} is not there any more.")
        containers = model.document.get("Containers") or [model.document["PrimaryContainer"]]
        if len(containers) > 1 or containers[0].get("Mode", "SingleModel") != "SingleModel":
            raise ServingFailed(
                f"The model {variant['ModelName']} has several containers or several models in one: this emulator serves "
                "one model in one container."
            )
        (container,) = containers
        return ModelContainer(
            endpoint=endpoint.name,
            variant=variant["VariantName"],
            region=endpoint.region,
            image=container.get("Image", ""),
            model_data=model_data(container),
            environment=container.get("Environment") or {},
            role=model.document.get("ExecutionRoleArn"),
            folder=self._folder / endpoint.region / endpoint.name / variant["VariantName"],
            startup=variant.get("ContainerStartupHealthCheckTimeoutInSeconds", _STARTUP_S),
        )

    def _now_in_service(self, endpoint: Resource, config: Resource) -> None:
        variants = [
            {
                "VariantName": variant["VariantName"],
                "CurrentWeight": variant.get("InitialVariantWeight", 1.0),
                "DesiredWeight": variant.get("InitialVariantWeight", 1.0),
                "CurrentInstanceCount": variant.get("InitialInstanceCount", 1),
                "DesiredInstanceCount": variant.get("InitialInstanceCount", 1),
            }
            for variant in config.document["ProductionVariants"]
        ]
        with self._emulator.store.changing(endpoint):
            endpoint.document["EndpointStatus"] = "InService"
            endpoint.document["EndpointConfigName"] = config.name
            endpoint.document["ProductionVariants"] = variants
            endpoint.document.pop("FailureReason", None)

    def _failed(self, endpoint: Resource, reason: str) -> None:
        with self._lock:
            serving = (endpoint.region, endpoint.name) in self._serving
        with self._emulator.store.changing(endpoint):
            # An update that fails leaves the old configuration in service.
            endpoint.document["EndpointStatus"] = "InService" if serving else "Failed"
            endpoint.document["FailureReason"] = reason[:1024]


def model_data(container: dict[str, Any]) -> ModelData | None:
    """`ModelDataUrl` or `ModelDataSource` of a container's definition."""
    source = (container.get("ModelDataSource") or {}).get("S3DataSource")
    if source is not None:
        return ModelData(
            source["S3Uri"],
            packed=source.get("CompressionType") == "Gzip",
            prefix=source.get("S3DataType") == "S3Prefix",
        )
    url = container.get("ModelDataUrl")
    return ModelData(url) if url else None
