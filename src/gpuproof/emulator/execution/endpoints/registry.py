"""The endpoints in service: status, updates without downtime, and the choice of a variant for each request.

A `ModelServer` starts the containers; `model_server.py` has the one that runs GPUproof's server.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from gpuproof.emulator.context import Context
from gpuproof.emulator.execution.endpoints.container_spec import (
    STARTUP_TIMEOUT_S,
    ContainerSpec,
    ServingFailed,
    model_data,
)
from gpuproof.emulator.protocol import ACCOUNT, AwsError, AwsRequest, AwsResponse
from gpuproof.emulator.store import ENDPOINT, ENDPOINT_CONFIG, MODEL, Resource

MAX_BODY = 6 << 20
"""Bytes of the body of an invocation: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html"""


class RunningModel(Protocol):
    """A container that serves `/ping` and `/invocations`."""

    def invoke(self, request: AwsRequest) -> AwsResponse:
        """Forward an invocation and return the container's response."""
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
class _Deployment:
    """The containers of one endpoint.

    Args:
        models: by the variant's name.
        weights: share of the requests for each variant, in the same order.
    """

    models: dict[str, RunningModel] = field(default_factory=dict)
    weights: list[float] = field(default_factory=list)

    def choose_variant(self) -> str:
        """The variant for a request that names none."""
        weights = self.weights if any(self.weights) else None
        return random.choices(list(self.models), weights)[0]

    def stop(self) -> None:
        for model in self.models.values():
            model.stop()


class EndpointRegistry:
    """The endpoints in service.

    Args:
        context: the emulator's shared state.
        server: starts the containers.
    """

    def __init__(self, context: Context, server: ModelServer) -> None:
        self._context = context
        self._server = server
        self._deployments: dict[tuple[str, str], _Deployment] = {}
        self._lock = threading.Lock()
        self._shut_down = False

    def create(self, endpoint: Resource, config: Resource) -> None:
        """Bring a new endpoint into service."""
        self._deploy_in_background(endpoint, config)

    def update(self, endpoint: Resource, config: Resource) -> None:
        """Bring another configuration into service; the old one serves requests until then."""
        self._deploy_in_background(endpoint, config)

    def set_weights(self, endpoint: Resource, weights: Mapping[str, float]) -> None:
        """Change the share of the requests that each variant gets."""
        with self._lock:
            if deployment := self._deployments.get((endpoint.region, endpoint.name)):
                deployment.weights = [weights[name] for name in deployment.models]

    def delete(self, endpoint: Resource) -> None:
        """Take an endpoint out of service."""
        with self._lock:
            deployment = self._deployments.pop((endpoint.region, endpoint.name), _Deployment())
        deployment.stop()

    def restore(self) -> None:
        """Start the endpoints that were in service when the emulator last ended."""
        shutil.rmtree(self._folder, ignore_errors=True)
        for endpoint in self._context.store.all(ENDPOINT):
            if endpoint.document["EndpointStatus"] == "Failed":
                continue
            name = endpoint.document["EndpointConfigName"]
            config = self._context.store.get(ENDPOINT_CONFIG, endpoint.region, name)
            if config is None:
                self._record_failure(
                    endpoint, f"Could not find endpoint configuration {name} when the emulator started."
                )
                continue
            with self._context.store.modify(endpoint):
                endpoint.document["EndpointStatus"] = "Creating"
            self._deploy_in_background(endpoint, config)

    def shutdown(self) -> None:
        """End all containers. The endpoints themselves remain, and `restore` starts them again."""
        with self._lock:
            self._shut_down = True
            self._deployments.clear()
        self._server.shutdown()

    def invoke(self, request: AwsRequest) -> AwsResponse:
        """`InvokeEndpoint` and `InvokeEndpointWithResponseStream`.

        Raises:
            AwsError: no such endpoint or variant is in service, or it does not respond.
        """
        name = request.path.split("/")[2]
        with self._lock:
            deployment = self._deployments.get((request.region, name))
        if deployment is None:
            raise AwsError("ValidationError", f"Endpoint {name} of account {ACCOUNT} not found.")
        if request.path.endswith("/async-invocations"):
            raise AwsError("ValidationError", f"Endpoint {name} of account {ACCOUNT} is not asynchronous.")
        if request.size > MAX_BODY:
            raise AwsError("413", f"HTTP content length exceeded {MAX_BODY} bytes.", 413)
        variant = request.header("x-amzn-sagemaker-target-variant") or deployment.choose_variant()
        if variant not in deployment.models:
            raise AwsError("ValidationError", f"Variant {variant} not found for the endpoint {name}.")
        return deployment.models[variant].invoke(request)

    @property
    def _folder(self) -> Path:
        return self._context.options.state / "endpoints"

    def _deploy_in_background(self, endpoint: Resource, config: Resource) -> None:
        threading.Thread(
            target=self._deploy, args=(endpoint, config), name=endpoint.name, daemon=True
        ).start()

    def _deploy(self, endpoint: Resource, config: Resource) -> None:
        new = _Deployment()
        try:
            for variant in config.document["ProductionVariants"]:
                model = self._server.start(self._container_spec(endpoint, variant))
                new.models[variant["VariantName"]] = model
                new.weights.append(variant.get("InitialVariantWeight", 1.0))
        except Exception as error:  # noqa: BLE001 - after any error, the endpoint must not stay Creating
            new.stop()
            if not self._shut_down:
                self._record_failure(endpoint, str(error))
            return
        with self._lock:
            old = self._deployments.get((endpoint.region, endpoint.name), _Deployment())
            shut_down = self._shut_down
            if not shut_down:
                self._deployments[endpoint.region, endpoint.name] = new
        if shut_down:
            new.stop()
            return
        self._record_in_service(endpoint, config)
        old.stop()

    def _container_spec(self, endpoint: Resource, variant: dict[str, Any]) -> ContainerSpec:
        model = self._context.store.get(MODEL, endpoint.region, variant["ModelName"])
        if model is None:
            raise ServingFailed(f"The model {variant['ModelName']} no longer exists.")
        containers = model.document.get("Containers") or [model.document["PrimaryContainer"]]
        if len(containers) > 1 or containers[0].get("Mode", "SingleModel") != "SingleModel":
            raise ServingFailed(
                f"The model {variant['ModelName']} has several containers, or several models in one container; this emulator"
                " supports one model in one container."
            )
        (container,) = containers
        return ContainerSpec(
            endpoint=endpoint.name,
            variant=variant["VariantName"],
            region=endpoint.region,
            image=container.get("Image", ""),
            model_data=model_data(container),
            environment=container.get("Environment") or {},
            role=model.document.get("ExecutionRoleArn"),
            folder=self._folder / endpoint.region / endpoint.name / variant["VariantName"],
            isolated=bool(model.document.get("EnableNetworkIsolation")),
            startup_timeout=variant.get("ContainerStartupHealthCheckTimeoutInSeconds", STARTUP_TIMEOUT_S),
        )

    def _record_in_service(self, endpoint: Resource, config: Resource) -> None:
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
        with self._context.store.modify(endpoint):
            endpoint.document["EndpointStatus"] = "InService"
            endpoint.document["EndpointConfigName"] = config.name
            endpoint.document["ProductionVariants"] = variants
            endpoint.document.pop("FailureReason", None)

    def _record_failure(self, endpoint: Resource, reason: str) -> None:
        with self._lock:
            in_service = (endpoint.region, endpoint.name) in self._deployments
        with self._context.store.modify(endpoint):
            # An update that fails leaves the old configuration in service.
            endpoint.document["EndpointStatus"] = "InService" if in_service else "Failed"
            endpoint.document["FailureReason"] = reason[:1024]
