"""Models, endpoint configurations and endpoints."""

from __future__ import annotations

from typing import Any

from gpuproof.emulator.arns import ENDPOINT, ENDPOINT_CONFIG, MODEL, arn
from gpuproof.emulator.endpoints import model_data
from gpuproof.emulator.execution.s3_sync import Location
from gpuproof.emulator.operations.call import Call, created, new_tags, refuse_unknown_role
from gpuproof.emulator.operations.create_checks import refuse_by_fault, refuse_twice
from gpuproof.emulator.operations.list import Listing
from gpuproof.emulator.protocol import AwsError, now
from gpuproof.emulator.store import Resource

_DUPLICATES = {
    MODEL: "Cannot create already existing model",
    ENDPOINT_CONFIG: "Cannot create already existing endpoint configuration",
    ENDPOINT: "Cannot create already existing endpoint",
}
_MISSING = {
    MODEL: "Could not find model",
    ENDPOINT_CONFIG: "Could not find endpoint configuration",
    ENDPOINT: "Could not find endpoint",
}
_MODELS = Listing(MODEL, "Models", order="Descending")
_CONFIGS = Listing(ENDPOINT_CONFIG, "EndpointConfigs", order="Descending")
_ENDPOINTS = Listing(ENDPOINT, "Endpoints", "EndpointStatus", order="Descending")


def create_model(call: Call) -> dict[str, Any]:
    """`CreateModel`."""
    request = call.request
    if not request.get("PrimaryContainer") and not request.get("Containers"):
        raise AwsError("ValidationException", "One of PrimaryContainer and Containers must be given.")
    if role := request.get("ExecutionRoleArn"):
        refuse_unknown_role(call, role)
    for container in request.get("Containers") or [request["PrimaryContainer"]]:
        _refuse_without_data(call, container)
    return {"ModelArn": _create(call, MODEL, request["ModelName"])}


def create_config(call: Call) -> dict[str, Any]:
    """`CreateEndpointConfig`."""
    variants = call.request["ProductionVariants"]
    refuse_twice([variant["VariantName"] for variant in variants], "Variant names must be unique")
    for variant in variants:
        if name := variant.get("ModelName"):
            _found(call, MODEL, name)
    return {"EndpointConfigArn": _create(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"])}


def create_endpoint(call: Call) -> dict[str, Any]:
    """`CreateEndpoint`."""
    request = call.request
    config = _found(call, ENDPOINT_CONFIG, request["EndpointConfigName"])
    instances = _instances(config)
    moment = now()
    document = {
        "EndpointName": request["EndpointName"],
        "EndpointArn": arn(ENDPOINT, call.region, request["EndpointName"]),
        "EndpointConfigName": config.name,
        "EndpointStatus": "Creating",
        "CreationTime": moment,
        "LastModifiedTime": moment,
    }
    endpoint = Resource(
        ENDPOINT, call.region, request["EndpointName"], document, new_tags(request), {"instances": instances}
    )
    with call.emulator.store.at_once():
        for kind, count in instances:
            refuse_by_fault(call, "endpoint", request["EndpointName"], kind, count)
        made = created(call, endpoint, f'{_DUPLICATES[ENDPOINT]} "{{arn}}".')
    call.emulator.endpoints.create(endpoint, config)
    return {"EndpointArn": made}


def update_endpoint(call: Call) -> dict[str, Any]:
    """`UpdateEndpoint`."""
    endpoint = _found(call, ENDPOINT, call.request["EndpointName"])
    config = _found(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"])
    if endpoint.document["EndpointStatus"] != "InService":
        raise AwsError(
            "ValidationException",
            f'Cannot update in-progress or failed endpoint "{endpoint.document["EndpointArn"]}".',
        )
    with call.emulator.store.changing(endpoint):
        endpoint.document["EndpointStatus"] = "Updating"
    call.emulator.endpoints.update(endpoint, config)
    return {"EndpointArn": endpoint.document["EndpointArn"]}


def describe_endpoint(call: Call) -> dict[str, Any]:
    """`DescribeEndpoint`."""
    return call.settled(_found(call, ENDPOINT, call.request["EndpointName"]), "EndpointStatus").document


def delete_endpoint(call: Call) -> dict[str, Any]:
    """`DeleteEndpoint`."""
    endpoint = _found(call, ENDPOINT, call.request["EndpointName"])
    if endpoint.document["EndpointStatus"] in ("Creating", "Updating", "Deleting"):
        raise AwsError(
            "ValidationException", f'Cannot delete in-progress endpoint "{endpoint.document["EndpointArn"]}".'
        )
    call.emulator.endpoints.delete(endpoint)
    call.emulator.store.remove(endpoint)
    return {}


def describe_model(call: Call) -> dict[str, Any]:
    """`DescribeModel`."""
    return _found(call, MODEL, call.request["ModelName"]).document


def describe_config(call: Call) -> dict[str, Any]:
    """`DescribeEndpointConfig`."""
    return _found(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"]).document


def delete_model(call: Call) -> dict[str, Any]:
    """`DeleteModel`."""
    call.emulator.store.remove(_found(call, MODEL, call.request["ModelName"]))
    return {}


def delete_config(call: Call) -> dict[str, Any]:
    """`DeleteEndpointConfig`."""
    call.emulator.store.remove(_found(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"]))
    return {}


OPERATIONS = {
    "CreateModel": create_model,
    "DescribeModel": describe_model,
    "ListModels": _MODELS.answer,
    "DeleteModel": delete_model,
    "CreateEndpointConfig": create_config,
    "DescribeEndpointConfig": describe_config,
    "ListEndpointConfigs": _CONFIGS.answer,
    "DeleteEndpointConfig": delete_config,
    "CreateEndpoint": create_endpoint,
    "DescribeEndpoint": describe_endpoint,
    "ListEndpoints": _ENDPOINTS.answer,
    "UpdateEndpoint": update_endpoint,
    "DeleteEndpoint": delete_endpoint,
}


def _create(call: Call, kind: str, name: str) -> str:
    member = {MODEL: "ModelArn", ENDPOINT_CONFIG: "EndpointConfigArn"}[kind]
    document = {
        **{key: value for key, value in call.request.items() if key != "Tags"},
        member: arn(kind, call.region, name),
        "CreationTime": now(),
    }
    if kind == MODEL:
        document.setdefault("EnableNetworkIsolation", False)
    resource = Resource(kind, call.region, name, document, new_tags(call.request))
    return created(call, resource, f'{_DUPLICATES[kind]} "{{arn}}".')


def _refuse_without_data(call: Call, container: dict[str, Any]) -> None:
    data = model_data(container)
    if data is None:
        return
    place = Location.parse(data.uri)
    s3 = call.emulator.clients.get("s3", call.region)
    try:
        found = s3.list_objects_v2(Bucket=place.bucket, Prefix=place.key, MaxKeys=1)["KeyCount"]
    except s3.exceptions.ClientError:
        found = 0
    if not found:
        raise AwsError("ValidationException", f"Could not find model data at {data.uri}.")


def _found(call: Call, kind: str, name: str) -> Resource:
    return call.found(kind, name, f'{_MISSING[kind]} "{arn(kind, call.region, name)}".')


def _instances(config: Resource) -> list[tuple[str, int]]:
    variants = config.document["ProductionVariants"]
    return [
        (variant["InstanceType"], variant.get("InitialInstanceCount", 1))
        for variant in variants
        if variant.get("InstanceType")
    ]
