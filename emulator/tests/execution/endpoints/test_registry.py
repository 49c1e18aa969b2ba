"""Endpoints come into service, are updated without downtime, and are deleted."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.endpoints.container_spec import ContainerSpec, ModelData, ServingFailed
from gpuproof_emulator.execution.endpoints.registry import EndpointRegistry
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse
from gpuproof_emulator.store import Resource
from support.cli_sandbox import until
from support.emulator_context import make_context

REGION = "us-east-1"


@dataclass
class Running:
    """A container that answers with its image's name."""

    image: str
    stopped: bool = False

    def invoke(self, request: AwsRequest, timeout: float | None = None) -> AwsResponse:
        return AwsResponse(200, (), [self.image.encode() + b": " + request.content()])

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Server:
    """Serves every image but `broken`."""

    started: list[Running] = field(default_factory=list)
    specs: list[ContainerSpec] = field(default_factory=list)

    def start(self, spec: ContainerSpec) -> Running:
        self.specs.append(spec)
        if spec.image == "broken":
            raise ServingFailed("The primary container did not pass the ping health check.")
        self.started.append(Running(spec.image))
        return self.started[-1]

    def shutdown(self) -> None:
        for running in self.started:
            running.stop()


def add_config(context: Context, name: str, image: str) -> Resource:
    """Add a model and a configuration for it."""
    container = {"Image": image, "ModelDataUrl": "s3://b/model.tar.gz", "Environment": {"A": "b"}}
    context.store.add(Resource("model", REGION, name, {"ModelName": name, "PrimaryContainer": container}))
    variant = {"VariantName": "all", "ModelName": name, "InstanceType": "ml.g5.xlarge"}
    config = Resource("endpoint-config", REGION, name, {"ProductionVariants": [variant]})
    context.store.add(config)
    return config


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return make_context(tmp_path)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def endpoints(context: Context, server: Server) -> Iterator[EndpointRegistry]:
    made = EndpointRegistry(context, server)
    yield made
    made.shutdown()


def test_an_endpoint_serves_its_model(context: Context, server: Server, endpoints: EndpointRegistry) -> None:
    endpoint = _created(context, endpoints, add_config(context, "one", "first"))
    assert endpoint.document["EndpointStatus"] == "InService"
    assert b"".join(endpoints.invoke(_request("e")).body) == b"first: hello"
    (spec,) = server.specs
    assert (spec.model_data, spec.environment, spec.variant) == (
        ModelData("s3://b/model.tar.gz"),
        {"A": "b"},
        "all",
    )


def test_a_container_that_does_not_serve_fails_the_endpoint(
    context: Context, endpoints: EndpointRegistry
) -> None:
    endpoint = _created(context, endpoints, add_config(context, "one", "broken"))
    assert endpoint.document["EndpointStatus"] == "Failed"
    assert "ping health check" in endpoint.document["FailureReason"]
    with pytest.raises(AwsError, match="not found"):
        endpoints.invoke(_request("e"))


def test_an_update_replaces_the_old_container_when_the_new_one_serves(
    context: Context, server: Server, endpoints: EndpointRegistry
) -> None:
    endpoint = _created(context, endpoints, add_config(context, "one", "first"))
    _updated(context, endpoints, endpoint, add_config(context, "two", "second"))
    assert b"".join(endpoints.invoke(_request("e")).body) == b"second: hello"
    until(lambda: server.started[0].stopped, "the end of the old container")
    assert endpoint.document["EndpointConfigName"] == "two"


def test_an_update_that_fails_leaves_the_old_container_in_service(
    context: Context, endpoints: EndpointRegistry
) -> None:
    endpoint = _created(context, endpoints, add_config(context, "one", "first"))
    _updated(context, endpoints, endpoint, add_config(context, "two", "broken"))
    assert endpoint.document["EndpointStatus"] == "InService"
    assert endpoint.document["EndpointConfigName"] == "one"
    assert b"".join(endpoints.invoke(_request("e")).body) == b"first: hello"


def test_a_deleted_endpoint_ends_its_container(
    context: Context, server: Server, endpoints: EndpointRegistry
) -> None:
    endpoints.delete(_created(context, endpoints, add_config(context, "one", "first")))
    assert server.started[0].stopped
    with pytest.raises(AwsError, match="Endpoint e of account 123456789012 not found"):
        endpoints.invoke(_request("e"))


def test_endpoints_come_back_after_a_restart(
    context: Context, server: Server, endpoints: EndpointRegistry
) -> None:
    endpoint = _created(context, endpoints, add_config(context, "one", "first"))
    again = EndpointRegistry(context, server)
    again.restore()
    until(lambda: endpoint.document["EndpointStatus"] == "InService", "the endpoint")
    assert b"".join(again.invoke(_request("e")).body) == b"first: hello"
    again.shutdown()


def test_an_endpoint_whose_configuration_is_gone_has_failed_after_a_restart(
    context: Context, server: Server, endpoints: EndpointRegistry
) -> None:
    config = add_config(context, "one", "first")
    endpoint = _created(context, endpoints, config)
    context.store.remove(config)
    again = EndpointRegistry(context, server)
    again.restore()
    assert endpoint.document["EndpointStatus"] == "Failed"
    assert "Could not find endpoint configuration one" in endpoint.document["FailureReason"]


@pytest.mark.parametrize("weights", [(0.0, 1.0), (1.0, 0.0)])
def test_a_variant_without_weight_is_invoked_only_by_name(
    context: Context, endpoints: EndpointRegistry, weights: tuple[float, float]
) -> None:
    variants = []
    for name, weight in zip(("first", "second"), weights, strict=True):
        (variant,) = add_config(context, name, name).document["ProductionVariants"]
        variants.append({**variant, "VariantName": name, "InitialVariantWeight": weight})
    config = Resource("endpoint-config", REGION, "both", {"ProductionVariants": variants})
    context.store.add(config)
    _created(context, endpoints, config)
    expected = b"first: hello" if weights[0] else b"second: hello"
    assert {b"".join(endpoints.invoke(_request("e")).body) for _ in range(20)} == {expected}
    for name in ("first", "second"):
        answer = endpoints.invoke(_request("e", HTTP_X_AMZN_SAGEMAKER_TARGET_VARIANT=name))
        assert b"".join(answer.body) == f"{name}: hello".encode()


def test_an_unsupported_model_is_reported(context: Context, endpoints: EndpointRegistry) -> None:
    config = add_config(context, "many", "first")
    model = context.store.get("model", REGION, "many")
    assert model is not None
    model.document["Containers"] = [model.document["PrimaryContainer"]] * 2
    endpoint = _created(context, endpoints, config)
    assert endpoint.document["EndpointStatus"] == "Failed"
    assert "supports one container" in endpoint.document["FailureReason"]


def _created(context: Context, endpoints: EndpointRegistry, config: Resource) -> Resource:
    document: dict[str, Any] = {"EndpointStatus": "Creating", "EndpointConfigName": config.name}
    endpoint = Resource("endpoint", REGION, "e", document)
    context.store.add(endpoint)
    endpoints.create(endpoint, config)
    until(lambda: endpoint.document["EndpointStatus"] != "Creating", "the endpoint")
    return endpoint


def _updated(context: Context, endpoints: EndpointRegistry, endpoint: Resource, config: Resource) -> None:
    with context.store.modify(endpoint):
        endpoint.document["EndpointStatus"] = "Updating"
    endpoints.update(endpoint, config)
    until(lambda: endpoint.document["EndpointStatus"] != "Updating", "the update")


def _request(endpoint: str, **headers: str) -> AwsRequest:
    return AwsRequest.read(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": f"/endpoints/{endpoint}/invocations",
            "CONTENT_LENGTH": "5",
            "wsgi.input": io.BytesIO(b"hello"),
            **headers,
        }
    )
