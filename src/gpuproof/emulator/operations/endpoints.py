"""Operations on models, endpoint configurations and endpoints."""

from __future__ import annotations

from typing import Any

from gpuproof.emulator.execution.endpoints.container_spec import model_data
from gpuproof.emulator.execution.s3_sync import S3Location
from gpuproof.emulator.operations.call import OperationCall, add_resource, check_role, request_tags
from gpuproof.emulator.operations.create_checks import check_quota_and_capacity, reject_duplicates
from gpuproof.emulator.operations.list import Listing
from gpuproof.emulator.operations.request_checks import check_image, check_keys, check_network
from gpuproof.emulator.protocol import AwsError, now
from gpuproof.emulator.store import ENDPOINT, ENDPOINT_CONFIG, MODEL, Resource, resource_arn

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
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantServerlessConfig.html
_MEMORY_SIZES = (1024, 2048, 3072, 4096, 5120, 6144)  # MB
_MODELS = Listing(MODEL, "Models", order="Descending")
_CONFIGS = Listing(ENDPOINT_CONFIG, "EndpointConfigs", order="Descending")
_ENDPOINTS = Listing(ENDPOINT, "Endpoints", "EndpointStatus", order="Descending")


def create_model(call: OperationCall) -> dict[str, Any]:
    """`CreateModel`."""
    request = call.request
    if not request.get("PrimaryContainer") and not request.get("Containers"):
        raise AwsError("ValidationException", "Either PrimaryContainer or Containers must be specified.")
    if role := request.get("ExecutionRoleArn"):
        check_role(call, role)
    check_network(call, request.get("VpcConfig"))
    for container in request.get("Containers") or [request["PrimaryContainer"]]:
        check_image(container.get("Image"))
        _check_model_data(call, container)
    return {"ModelArn": _create(call, MODEL, request["ModelName"])}


def create_config(call: OperationCall) -> dict[str, Any]:
    """`CreateEndpointConfig`."""
    variants = call.request["ProductionVariants"]
    reject_duplicates([variant["VariantName"] for variant in variants], "Variant names must be unique")
    for variant in variants:
        if name := variant.get("ModelName"):
            _find(call, MODEL, name)
        memory = (variant.get("ServerlessConfig") or {}).get("MemorySizeInMB", _MEMORY_SIZES[0])
        if memory not in _MEMORY_SIZES:
            raise AwsError(
                "ValidationException",
                f"1 validation error detected: Value '{memory}' at 'memorySizeInMB' failed to satisfy constraint: Member must"
                f" satisfy enum value set: [{', '.join(map(str, _MEMORY_SIZES))}]",
            )
    check_keys(call, call.request.get("KmsKeyId"))
    return {"EndpointConfigArn": _create(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"])}


def create_endpoint(call: OperationCall) -> dict[str, Any]:
    """`CreateEndpoint`."""
    request = call.request
    config = _find(call, ENDPOINT_CONFIG, request["EndpointConfigName"])
    instances = _instances(config)
    moment = now()
    document = {
        "EndpointName": request["EndpointName"],
        "EndpointArn": resource_arn(ENDPOINT, call.region, request["EndpointName"]),
        "EndpointConfigName": config.name,
        "EndpointStatus": "Creating",
        "CreationTime": moment,
        "LastModifiedTime": moment,
    }
    endpoint = Resource(
        ENDPOINT,
        call.region,
        request["EndpointName"],
        document,
        request_tags(request),
        {"instances": instances},
    )
    with call.context.store.locked():
        for instance_type, count in instances:
            check_quota_and_capacity(call, "endpoint", request["EndpointName"], instance_type, count)
        arn = add_resource(call, endpoint, f'{_DUPLICATES[ENDPOINT]} "{{arn}}".')
    call.endpoints.create(endpoint, config)
    return {"EndpointArn": arn}


def update_endpoint(call: OperationCall) -> dict[str, Any]:
    """`UpdateEndpoint`."""
    endpoint = _find(call, ENDPOINT, call.request["EndpointName"])
    config = _find(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"])
    if endpoint.document["EndpointStatus"] != "InService":
        raise AwsError(
            "ValidationException",
            f'Cannot update in-progress or failed endpoint "{endpoint.document["EndpointArn"]}".',
        )
    with call.context.store.modify(endpoint):
        endpoint.document["EndpointStatus"] = "Updating"
    call.endpoints.update(endpoint, config)
    return {"EndpointArn": endpoint.document["EndpointArn"]}


def update_weights(call: OperationCall) -> dict[str, Any]:
    """`UpdateEndpointWeightsAndCapacities`: weights take effect at once, instance counts are only recorded."""
    endpoint = _find(call, ENDPOINT, call.request["EndpointName"])
    if endpoint.document["EndpointStatus"] != "InService":
        raise AwsError("ValidationException", f'Cannot update in-progress endpoint "{endpoint.arn}".')
    changes = call.request["DesiredWeightsAndCapacities"]
    names = [change["VariantName"] for change in changes]
    for name in names:
        if names.count(name) > 1:
            raise AwsError(
                "ValidationException", f'The variant name "{name}" was non-unique within the request.'
            )
    variants = {
        variant["VariantName"]: variant for variant in endpoint.document.get("ProductionVariants") or ()
    }
    if missing := [name for name in names if name not in variants]:
        raise AwsError(
            "ValidationException",
            f'The variant name(s) "{", ".join(missing)}" is/are not present within endpoint configuration'
            f' "{endpoint.document["EndpointConfigName"]}".',
        )
    with call.context.store.modify(endpoint):
        for change in changes:
            variant = variants[change["VariantName"]]
            if "DesiredWeight" in change:
                variant["CurrentWeight"] = variant["DesiredWeight"] = change["DesiredWeight"]
            if "DesiredInstanceCount" in change:
                count = change["DesiredInstanceCount"]
                variant["CurrentInstanceCount"] = variant["DesiredInstanceCount"] = count
    call.endpoints.set_weights(
        endpoint, {name: variant["CurrentWeight"] for name, variant in variants.items()}
    )
    return {"EndpointArn": endpoint.arn}


def describe_endpoint(call: OperationCall) -> dict[str, Any]:
    """`DescribeEndpoint`."""
    return call.wait_until_settled(
        _find(call, ENDPOINT, call.request["EndpointName"]), "EndpointStatus"
    ).document


def delete_endpoint(call: OperationCall) -> dict[str, Any]:
    """`DeleteEndpoint`."""
    endpoint = _find(call, ENDPOINT, call.request["EndpointName"])
    if endpoint.document["EndpointStatus"] in ("Creating", "Updating", "Deleting"):
        raise AwsError(
            "ValidationException", f'Cannot delete in-progress endpoint "{endpoint.document["EndpointArn"]}".'
        )
    call.endpoints.delete(endpoint)
    call.context.store.remove(endpoint)
    return {}


def describe_model(call: OperationCall) -> dict[str, Any]:
    """`DescribeModel`."""
    return _find(call, MODEL, call.request["ModelName"]).document


def describe_config(call: OperationCall) -> dict[str, Any]:
    """`DescribeEndpointConfig`."""
    return _find(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"]).document


def delete_model(call: OperationCall) -> dict[str, Any]:
    """`DeleteModel`."""
    call.context.store.remove(_find(call, MODEL, call.request["ModelName"]))
    return {}


def delete_config(call: OperationCall) -> dict[str, Any]:
    """`DeleteEndpointConfig`."""
    call.context.store.remove(_find(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"]))
    return {}


OPERATIONS = {
    "CreateModel": create_model,
    "DescribeModel": describe_model,
    "ListModels": _MODELS.list_page,
    "DeleteModel": delete_model,
    "CreateEndpointConfig": create_config,
    "DescribeEndpointConfig": describe_config,
    "ListEndpointConfigs": _CONFIGS.list_page,
    "DeleteEndpointConfig": delete_config,
    "CreateEndpoint": create_endpoint,
    "DescribeEndpoint": describe_endpoint,
    "ListEndpoints": _ENDPOINTS.list_page,
    "UpdateEndpoint": update_endpoint,
    "UpdateEndpointWeightsAndCapacities": update_weights,
    "DeleteEndpoint": delete_endpoint,
}


def _create(call: OperationCall, kind: str, name: str) -> str:
    member = {MODEL: "ModelArn", ENDPOINT_CONFIG: "EndpointConfigArn"}[kind]
    document = {
        **{key: value for key, value in call.request.items() if key != "Tags"},
        member: resource_arn(kind, call.region, name),
        "CreationTime": now(),
    }
    if kind == MODEL:
        document.setdefault("EnableNetworkIsolation", False)
    resource = Resource(kind, call.region, name, document, request_tags(call.request))
    return add_resource(call, resource, f'{_DUPLICATES[kind]} "{{arn}}".')


def _check_model_data(call: OperationCall, container: dict[str, Any]) -> None:
    data = model_data(container)
    if data is None:
        return
    location = S3Location.parse(data.uri)
    s3 = call.context.clients.get("s3", call.region)
    try:
        found = s3.list_objects_v2(Bucket=location.bucket, Prefix=location.key, MaxKeys=1)["KeyCount"]
    except s3.exceptions.ClientError:
        found = 0
    if not found:
        raise AwsError("ValidationException", f"Could not find model data at {data.uri}.")


def _find(call: OperationCall, kind: str, name: str) -> Resource:
    return call.find(kind, name, f'{_MISSING[kind]} "{resource_arn(kind, call.region, name)}".')


def _instances(config: Resource) -> list[tuple[str, int]]:
    variants = config.document["ProductionVariants"]
    return [
        (variant["InstanceType"], variant.get("InitialInstanceCount", 1))
        for variant in variants
        if variant.get("InstanceType")
    ]
