"""The endpoints in service: status, updates without downtime, and invocations.

A `ModelServer` starts the containers; `model_server.py` has the one that runs GPUproof's server.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.endpoints.async_queue import AsyncQueue
from gpuproof_emulator.execution.endpoints.container_spec import ServingFailed
from gpuproof_emulator.execution.endpoints.data_capture import DataCapture
from gpuproof_emulator.execution.endpoints.deployment import (
    Deployment,
    ModelServer,
    container_spec,
    start_variant,
)
from gpuproof_emulator.execution.endpoints.metrics import InvocationMetrics
from gpuproof_emulator.execution.endpoints.router import invoke_variant, reject_unsupported_headers
from gpuproof_emulator.faults.responses import NO_CAPACITY
from gpuproof_emulator.protocol import ACCOUNT, AwsError, AwsRequest, AwsResponse
from gpuproof_emulator.store import ENDPOINT, ENDPOINT_CONFIG, MODEL, Resource

_Key = tuple[str, str]
NO_RETAINED: frozenset[str] = frozenset()
ALL_RETAINED = frozenset({"DesiredInstanceCount", "DesiredWeight", "DataCaptureConfig"})
"""Properties of variants that an update can keep: `VariantPropertyType` of botocore's model."""


class EndpointRegistry:
    """The endpoints in service.

    Args:
        context: the emulator's shared state.
        server: starts the containers.
    """

    def __init__(self, context: Context, server: ModelServer) -> None:
        self._context = context
        self._server = server
        self._deployments: dict[_Key, Deployment] = {}
        self._queues: dict[_Key, AsyncQueue] = {}
        self._lock = threading.Lock()
        self._shut_down = threading.Event()
        self.metrics = InvocationMetrics(context.clients)

    def create(self, endpoint: Resource, config: Resource) -> None:
        """Bring a new endpoint into service."""
        self._in_background(endpoint, lambda: self._deploy(endpoint, config, NO_RETAINED))

    def update(self, endpoint: Resource, config: Resource, retained: frozenset[str] = NO_RETAINED) -> None:
        """Bring another configuration into service; the old one serves requests until then.

        Args:
            retained: properties of variants that keep their current values.
        """
        self._in_background(endpoint, lambda: self._deploy(endpoint, config, retained))

    def set_capacities(self, endpoint: Resource, variants: list[dict[str, Any]]) -> None:
        """Bring other weights and instance counts into service.

        Args:
            variants: `ProductionVariants` of the endpoint, with the desired values.
        """
        self._in_background(endpoint, lambda: self._set_capacities(endpoint, variants))

    def delete(self, endpoint: Resource) -> None:
        """Take an endpoint out of service."""
        key = (endpoint.region, endpoint.name)
        with self._lock:
            deployment = self._deployments.pop(key, Deployment())
            queue = self._queues.pop(key, None)
        if queue is not None:
            queue.close()
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
            self.update(endpoint, config, ALL_RETAINED)

    def shutdown(self) -> None:
        """End all containers. The endpoints themselves remain, and `restore` starts them again."""
        self._shut_down.set()
        with self._lock:
            self._deployments.clear()
            queues = list(self._queues.values())
        for queue in queues:
            queue.close()
        self._server.shutdown()

    def invoke(self, request: AwsRequest) -> AwsResponse:
        """`InvokeEndpoint`, `InvokeEndpointWithResponseStream` and `InvokeEndpointAsync`.

        Raises:
            AwsError: no such endpoint or variant is in service, or it does not respond.
        """
        name = request.path.split("/")[2]
        key = (request.region, name)
        with self._lock:
            deployment, queue = self._deployments.get(key), self._queues.get(key)
        if deployment is None:
            raise AwsError("ValidationError", f"Endpoint {name} of account {ACCOUNT} not found.")
        reject_unsupported_headers(request)
        if request.path.endswith("/async-invocations"):
            if not deployment.asynchronous or queue is None:
                raise AwsError(
                    "ValidationError", f"Endpoint {name} of account {ACCOUNT} is not asynchronous."
                )
            return queue.submit(request)
        if deployment.asynchronous:
            raise AwsError(
                "ValidationError",
                f"Endpoint {name} of account {ACCOUNT} is asynchronous. Use InvokeEndpointAsync.",
            )
        return invoke_variant(request, name, deployment, self.metrics)

    @property
    def _folder(self) -> Path:
        return self._context.options.state / "endpoints"

    def _in_background(self, endpoint: Resource, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=endpoint.name, daemon=True).start()

    def _deploy(self, endpoint: Resource, config: Resource, retained: frozenset[str]) -> None:
        new = Deployment(asynchronous=bool(config.document.get("AsyncInferenceConfig")))
        if capture := config.document.get("DataCaptureConfig"):
            new.capture = DataCapture(
                self._context.clients.of_role(self._role(config), "s3", endpoint.region), capture
            )
        try:
            for variant in config.document["ProductionVariants"]:
                self._apply_faults(endpoint.name, variant.get("InstanceType", ""))
                folder = self._folder / endpoint.region / endpoint.name / variant["VariantName"]
                spec = container_spec(self._context, endpoint, variant, folder)
                new.variants[variant["VariantName"]] = start_variant(self._server, spec, variant)
        except Exception as error:  # noqa: BLE001 - after any error, the endpoint must not stay Creating
            new.stop()
            if not self._shut_down.is_set():
                self._record_failure(endpoint, str(error))
            return
        variants = _described(config, endpoint, retained)
        for variant in variants:
            new.variants[variant["VariantName"]].weight = variant["CurrentWeight"]
        key = (endpoint.region, endpoint.name)
        with self._lock:
            old = self._deployments.get(key, Deployment())
            shut_down = self._shut_down.is_set()
            if not shut_down:
                if old.capture is not None and "DataCaptureConfig" in retained:
                    new.capture = old.capture
                self._deployments[key] = new
                self._set_queue(endpoint, config)
        if shut_down:
            new.stop()
            return
        self._record_in_service(endpoint, config, variants)
        old.stop()

    def _apply_faults(self, name: str, instance_type: str) -> None:
        faults = self._context.faults
        if slow := faults.trigger(("slow-start",), name=name, instance=instance_type):
            self._shut_down.wait(slow.seconds)
        if faults.trigger(("capacity",), name=name, instance=instance_type, at="job"):
            raise ServingFailed(NO_CAPACITY)
        if faults.trigger(("no-image",), name=name, instance=instance_type):
            raise ServingFailed(
                "The primary container image does not exist or its permissions are incorrect: cannot pull it."
            )

    def _set_queue(self, endpoint: Resource, config: Resource) -> None:
        """Create, change or end an endpoint's queue; the requests in it stay."""
        key = (endpoint.region, endpoint.name)
        wanted = config.document.get("AsyncInferenceConfig")
        queue = self._queues.get(key)
        if queue is not None and queue.config != wanted:
            del self._queues[key]
            queue.close()
            queue = None
        if wanted and queue is None:
            self._queues[key] = AsyncQueue(
                self._context.clients,
                self._role(config),
                endpoint.name,
                endpoint.region,
                wanted,
                lambda request, timeout: self._invoke_queued(key, request, timeout),
                lambda: _has_instances(endpoint),
            )

    def _role(self, config: Resource) -> str | None:
        """The role of an endpoint: that of its first variant's model."""
        name = config.document["ProductionVariants"][0].get("ModelName", "")
        model = self._context.store.get(MODEL, config.region, name)
        return None if model is None else model.document.get("ExecutionRoleArn")

    def _invoke_queued(self, key: _Key, request: AwsRequest, timeout: float) -> AwsResponse:
        with self._lock:
            deployment = self._deployments.get(key)
        if deployment is None:
            raise AwsError("ServiceUnavailable", f"The endpoint {key[1]} is not in service.", 503)
        return invoke_variant(request, key[1], deployment, self.metrics, region=key[0], timeout=timeout)

    def _set_capacities(self, endpoint: Resource, variants: list[dict[str, Any]]) -> None:
        key = (endpoint.region, endpoint.name)
        types = {kind for kind, _ in endpoint.extra.get("instances", ())}
        try:
            for kind in sorted(types):
                self._apply_faults(endpoint.name, kind)
        except ServingFailed as error:
            self._record_failure(endpoint, str(error))
            return
        with self._lock:
            deployment, queue = self._deployments.get(key), self._queues.get(key)
        if deployment is not None:
            for variant in variants:
                deployment.variants[variant["VariantName"]].weight = variant["DesiredWeight"]
        for variant in variants:
            variant["CurrentWeight"] = variant["DesiredWeight"]
            variant["CurrentInstanceCount"] = variant["DesiredInstanceCount"]
        with self._context.store.modify(endpoint):
            endpoint.document["ProductionVariants"] = variants
            endpoint.document["EndpointStatus"] = "InService"
            endpoint.document.pop("FailureReason", None)
        if queue is not None:
            queue.notify()

    def _record_in_service(
        self, endpoint: Resource, config: Resource, variants: list[dict[str, Any]]
    ) -> None:
        members: dict[str, Any] = {
            "EndpointStatus": "InService",
            "EndpointConfigName": config.name,
            "ProductionVariants": variants,
        }
        if asynchronous := config.document.get("AsyncInferenceConfig"):
            members["AsyncInferenceConfig"] = asynchronous
        if capture := config.document.get("DataCaptureConfig"):
            enabled = capture.get("EnableCapture", True)
            members["DataCaptureConfig"] = {
                "EnableCapture": enabled,
                "CaptureStatus": "Started" if enabled else "Stopped",
                "CurrentSamplingPercentage": capture["InitialSamplingPercentage"],
                "DestinationS3Uri": capture["DestinationS3Uri"],
                "KmsKeyId": capture.get("KmsKeyId", ""),
            }
        with self._context.store.modify(endpoint):
            for name in ("FailureReason", "AsyncInferenceConfig", "DataCaptureConfig"):
                endpoint.document.pop(name, None)
            endpoint.document.update(members)
            endpoint.extra["instances"] = instances_of(config)

    def _record_failure(self, endpoint: Resource, reason: str) -> None:
        with self._lock:
            in_service = (endpoint.region, endpoint.name) in self._deployments
        with self._context.store.modify(endpoint):
            # An update that fails leaves the old configuration in service.
            endpoint.document["EndpointStatus"] = "InService" if in_service else "Failed"
            endpoint.document["FailureReason"] = reason[:1024]


def instances_of(config: Resource) -> list[tuple[str, int]]:
    """Types and numbers of the instances of an endpoint configuration."""
    return [
        (variant["InstanceType"], variant.get("InitialInstanceCount", 1))
        for variant in config.document["ProductionVariants"]
        if variant.get("InstanceType")
    ]


def _described(config: Resource, endpoint: Resource, retained: frozenset[str]) -> list[dict[str, Any]]:
    """`ProductionVariants` of an endpoint with a configuration, with the retained properties of its variants of the same name."""
    before: Mapping[str, dict[str, Any]] = {
        variant["VariantName"]: variant for variant in endpoint.document.get("ProductionVariants") or ()
    }
    return [
        _describe(variant, before.get(variant["VariantName"], {}), retained)
        for variant in config.document["ProductionVariants"]
    ]


def _describe(
    variant: Mapping[str, Any], before: Mapping[str, Any], retained: frozenset[str]
) -> dict[str, Any]:
    weight, count = variant.get("InitialVariantWeight", 1.0), variant.get("InitialInstanceCount", 1)
    if "DesiredWeight" in retained:
        weight = before.get("DesiredWeight", weight)
    if "DesiredInstanceCount" in retained:
        count = before.get("DesiredInstanceCount", count)
    described: dict[str, Any] = {
        "VariantName": variant["VariantName"],
        "CurrentWeight": weight,
        "DesiredWeight": weight,
    }
    if serverless := variant.get("ServerlessConfig"):
        return {**described, "CurrentServerlessConfig": serverless, "DesiredServerlessConfig": serverless}
    return {**described, "CurrentInstanceCount": count, "DesiredInstanceCount": count}


def _has_instances(endpoint: Resource) -> bool:
    variants = endpoint.document.get("ProductionVariants") or ()
    return any(variant.get("CurrentInstanceCount", 1) > 0 for variant in variants)
