"""Endpoints go into service, change without a gap and go, whatever serves them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuproof.emulator.endpoints import Endpoints, ModelContainer, ModelData, ServingFailed
from gpuproof.emulator.options import Options
from gpuproof.emulator.protocol import Answer, AwsError, AwsRequest
from gpuproof.emulator.store import Resource, Store
from support.cli_sandbox import until

REGION = "us-east-1"


@dataclass
class Running:
    """A container that answers with its image's name."""

    image: str
    stopped: bool = False

    def invoke(self, request: AwsRequest) -> Answer:
        return Answer(200, (), [self.image.encode() + b": " + request.content()])

    def stop(self) -> None:
        self.stopped = True


@dataclass
class Server:
    """Serves every image but `broken`."""

    started: list[Running] = field(default_factory=list)
    asked: list[ModelContainer] = field(default_factory=list)

    def start(self, container: ModelContainer) -> Running:
        self.asked.append(container)
        if container.image == "broken":
            raise ServingFailed("The primary container did not pass the ping health check.")
        self.started.append(Running(container.image))
        return self.started[-1]

    def shutdown(self) -> None:
        for running in self.started:
            running.stop()


@dataclass
class Aws:
    """As much of an emulator as endpoints need."""

    store: Store
    options: Options

    def config(self, name: str, image: str) -> Resource:
        """A model and a configuration of its own."""
        container = {"Image": image, "ModelDataUrl": "s3://b/model.tar.gz", "Environment": {"A": "b"}}
        self.store.add(Resource("model", REGION, name, {"ModelName": name, "PrimaryContainer": container}))
        variant = {"VariantName": "all", "ModelName": name, "InstanceType": "ml.g5.xlarge"}
        config = Resource("endpoint-config", REGION, name, {"ProductionVariants": [variant]})
        self.store.add(config)
        return config


@pytest.fixture
def aws(tmp_path: Path) -> Aws:
    return Aws(Store(tmp_path / "store"), Options(tmp_path))


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def endpoints(aws: Aws, server: Server) -> Iterator[Endpoints]:
    made = Endpoints(aws, server)  # type: ignore[arg-type]
    yield made
    made.shutdown()


def test_an_endpoint_serves_its_model(aws: Aws, server: Server, endpoints: Endpoints) -> None:
    endpoint = _created(aws, endpoints, aws.config("one", "first"))
    assert endpoint.document["EndpointStatus"] == "InService"
    assert b"".join(endpoints.invoke(_request("e")).body) == b"first: hello"
    (asked,) = server.asked
    assert (asked.model_data, asked.environment, asked.variant) == (
        ModelData("s3://b/model.tar.gz"),
        {"A": "b"},
        "all",
    )


def test_a_container_that_does_not_serve_fails_the_endpoint(aws: Aws, endpoints: Endpoints) -> None:
    endpoint = _created(aws, endpoints, aws.config("one", "broken"))
    assert endpoint.document["EndpointStatus"] == "Failed"
    assert "ping health check" in endpoint.document["FailureReason"]
    with pytest.raises(AwsError, match="not found"):
        endpoints.invoke(_request("e"))


def test_an_update_replaces_the_old_container_when_the_new_one_serves(
    aws: Aws, server: Server, endpoints: Endpoints
) -> None:
    endpoint = _created(aws, endpoints, aws.config("one", "first"))
    _updated(aws, endpoints, endpoint, aws.config("two", "second"))
    assert b"".join(endpoints.invoke(_request("e")).body) == b"second: hello"
    until(lambda: server.started[0].stopped, "the end of the old container")
    assert endpoint.document["EndpointConfigName"] == "two"


def test_an_update_that_fails_leaves_the_old_container_in_service(aws: Aws, endpoints: Endpoints) -> None:
    endpoint = _created(aws, endpoints, aws.config("one", "first"))
    _updated(aws, endpoints, endpoint, aws.config("two", "broken"))
    assert endpoint.document["EndpointStatus"] == "InService"
    assert endpoint.document["EndpointConfigName"] == "one"
    assert b"".join(endpoints.invoke(_request("e")).body) == b"first: hello"


def test_a_deleted_endpoint_ends_its_container(aws: Aws, server: Server, endpoints: Endpoints) -> None:
    endpoints.delete(_created(aws, endpoints, aws.config("one", "first")))
    assert server.started[0].stopped
    with pytest.raises(AwsError, match="Endpoint e of account 123456789012 not found"):
        endpoints.invoke(_request("e"))


def test_endpoints_come_back_after_a_restart(aws: Aws, server: Server, endpoints: Endpoints) -> None:
    endpoint = _created(aws, endpoints, aws.config("one", "first"))
    again = Endpoints(aws, server)  # type: ignore[arg-type]
    again.restore()
    until(lambda: endpoint.document["EndpointStatus"] == "InService", "the endpoint")
    assert b"".join(again.invoke(_request("e")).body) == b"first: hello"
    again.shutdown()


def test_an_endpoint_whose_configuration_is_gone_has_failed_after_a_restart(
    aws: Aws, server: Server, endpoints: Endpoints
) -> None:
    config = aws.config("one", "first")
    endpoint = _created(aws, endpoints, config)
    aws.store.remove(config)
    again = Endpoints(aws, server)  # type: ignore[arg-type]
    again.restore()
    assert endpoint.document["EndpointStatus"] == "Failed"
    assert "Could not find endpoint configuration one" in endpoint.document["FailureReason"]


@pytest.mark.parametrize("weights", [(0.0, 1.0), (1.0, 0.0)])
def test_a_variant_without_weight_is_asked_only_by_its_name(
    aws: Aws, endpoints: Endpoints, weights: tuple[float, float]
) -> None:
    variants = []
    for name, weight in zip(("first", "second"), weights, strict=True):
        (variant,) = aws.config(name, name).document["ProductionVariants"]
        variants.append({**variant, "VariantName": name, "InitialVariantWeight": weight})
    config = Resource("endpoint-config", REGION, "both", {"ProductionVariants": variants})
    aws.store.add(config)
    _created(aws, endpoints, config)
    expected = b"first: hello" if weights[0] else b"second: hello"
    assert {b"".join(endpoints.invoke(_request("e")).body) for _ in range(20)} == {expected}
    for name in ("first", "second"):
        answer = endpoints.invoke(_request("e", HTTP_X_AMZN_SAGEMAKER_TARGET_VARIANT=name))
        assert b"".join(answer.body) == f"{name}: hello".encode()


def test_what_is_not_served_is_said(aws: Aws, endpoints: Endpoints) -> None:
    config = aws.config("many", "first")
    model = aws.store.get("model", REGION, "many")
    assert model is not None
    model.document["PrimaryContainer"]["Mode"] = "MultiModel"
    endpoint = _created(aws, endpoints, config)
    assert endpoint.document["EndpointStatus"] == "Failed"
    assert "one model in one container" in endpoint.document["FailureReason"]


def _created(aws: Aws, endpoints: Endpoints, config: Resource) -> Resource:
    document: dict[str, Any] = {"EndpointStatus": "Creating", "EndpointConfigName": config.name}
    endpoint = Resource("endpoint", REGION, "e", document)
    aws.store.add(endpoint)
    endpoints.create(endpoint, config)
    until(lambda: endpoint.document["EndpointStatus"] != "Creating", "the endpoint")
    return endpoint


def _updated(aws: Aws, endpoints: Endpoints, endpoint: Resource, config: Resource) -> None:
    with aws.store.changing(endpoint):
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
