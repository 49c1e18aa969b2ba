"""Endpoints: how a model's container is started, kept and asked.

A `ModelServer` starts containers; which one there is says `model_server`. Everything else here is what SageMaker does
around it: status, updates without a gap, and the runtime's errors.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tarmac.emulator.store import Resource
from tarmac.emulator.wire import ACCOUNT, Answer, AwsError, AwsRequest

if TYPE_CHECKING:
    from tarmac.emulator.emulator import Emulator


@dataclass(frozen=True)
class ModelContainer:
    """What a server has to start.

    Args:
        endpoint: the endpoint's name.
        variant: the variant's name.
        region: where it is.
        image: the container image.
        model_data: S3 address of the model, as the model says it; None if there is none.
        environment: the model's own variables.
        role: the role of the model.
        folder: the instance's disk, empty.
    """

    endpoint: str
    variant: str
    region: str
    image: str
    model_data: str | None
    environment: dict[str, str]
    role: str | None
    folder: Path


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


class ServingFailed(Exception):
    """A container that does not serve; the message is the endpoint's FailureReason."""


class NoServer:
    """Says that models cannot be served here."""

    def start(self, container: ModelContainer) -> RunningModel:
        """Refuse."""
        raise ServingFailed(f"The image {container.image} cannot be served by this emulator.")


def model_server() -> ModelServer:
    """The server that this version has."""
    return NoServer()


class Endpoints:
    """The endpoints that are in service.

    Args:
        emulator: everything there is.
        server: starts the containers.
    """

    def __init__(self, emulator: Emulator, server: ModelServer) -> None:
        self._emulator = emulator
        self._server = server
        self._models: dict[tuple[str, str], dict[str, RunningModel]] = {}
        self._lock = threading.Lock()

    def create(self, endpoint: Resource, config: Resource) -> None:
        """Bring a new endpoint into service."""
        self._work(endpoint, config)

    def update(self, endpoint: Resource, config: Resource) -> None:
        """Bring another configuration into service; the old one answers until then."""
        self._work(endpoint, config)

    def delete(self, endpoint: Resource) -> None:
        """Take an endpoint out of service."""
        with self._lock:
            models = self._models.pop((endpoint.region, endpoint.name), {})
        for model in models.values():
            model.stop()

    def restore(self) -> None:
        """Bring the endpoints into service that were when the emulator last ended."""
        for endpoint in self._emulator.store.all("endpoint"):
            if endpoint.document["EndpointStatus"] == "Failed":
                continue
            config = self._emulator.store.get(
                "endpoint-config", endpoint.region, endpoint.document["EndpointConfigName"]
            )
            if config is not None:
                with self._emulator.store.changing(endpoint):
                    endpoint.document["EndpointStatus"] = "Creating"
                self._work(endpoint, config)

    def shutdown(self) -> None:
        """Take all endpoints out of service."""
        for endpoint in self._emulator.store.all("endpoint"):
            self.delete(endpoint)

    def invoke(self, request: AwsRequest) -> Answer:
        """`InvokeEndpoint`.

        Raises:
            AwsError: there is no such endpoint in service.
        """
        name = request.path.split("/")[2]
        with self._lock:
            models = self._models.get((request.region, name))
        if not models:
            raise AwsError("ValidationError", f"Endpoint {name} of account {ACCOUNT} not found.")
        variant = request.header("x-amzn-sagemaker-target-variant") or next(iter(models))
        if variant not in models:
            raise AwsError("ValidationError", f"Variant {variant} not found for the endpoint {name}.")
        return models[variant].invoke(request)

    def _work(self, endpoint: Resource, config: Resource) -> None:
        threading.Thread(target=self._start, args=(endpoint, config), name=endpoint.name, daemon=True).start()

    def _start(self, endpoint: Resource, config: Resource) -> None:
        started: dict[str, RunningModel] = {}
        try:
            for variant in config.document["ProductionVariants"]:
                started[variant["VariantName"]] = self._server.start(self._container(endpoint, variant))
        except Exception as error:  # noqa: BLE001 - whatever it is, the endpoint must not be Creating for ever
            for model in started.values():
                model.stop()
            self._failed(endpoint, str(error))
            return
        with self._lock:
            old = self._models.get((endpoint.region, endpoint.name), {})
            self._models[endpoint.region, endpoint.name] = started
        self._in_service(endpoint, config)
        for model in old.values():
            model.stop()

    def _container(self, endpoint: Resource, variant: dict[str, str]) -> ModelContainer:
        model = self._emulator.store.get("model", endpoint.region, variant["ModelName"])
        if model is None:
            raise ServingFailed(f"The model {variant['ModelName']} is not there any more.")
        container = model.document.get("PrimaryContainer") or model.document["Containers"][0]
        folder = self._emulator.options.state / "endpoints" / endpoint.region / endpoint.name
        return ModelContainer(
            endpoint=endpoint.name,
            variant=variant["VariantName"],
            region=endpoint.region,
            image=container.get("Image", ""),
            model_data=container.get("ModelDataUrl"),
            environment=container.get("Environment") or {},
            role=model.document.get("ExecutionRoleArn"),
            folder=folder / variant["VariantName"],
        )

    def _in_service(self, endpoint: Resource, config: Resource) -> None:
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
            serving = (endpoint.region, endpoint.name) in self._models
        with self._emulator.store.changing(endpoint):
            # An update that fails leaves the old configuration in service.
            endpoint.document["EndpointStatus"] = "InService" if serving else "Failed"
            endpoint.document["FailureReason"] = reason[:1024]
