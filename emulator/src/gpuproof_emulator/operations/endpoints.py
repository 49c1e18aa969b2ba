"""Operations on models, endpoint configurations and endpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.execution.endpoints import scalable_targets
from gpuproof_emulator.execution.endpoints.registry import ALL_RETAINED, NO_RETAINED, instances_of
from gpuproof_emulator.operations.call import OperationCall, add_resource, check_role, request_tags
from gpuproof_emulator.operations.create_checks import check_quota_and_capacity, reject_duplicates
from gpuproof_emulator.operations.endpoint_checks import (
    check_config,
    check_deployment,
    check_model_data,
    check_topics,
    check_variant,
)
from gpuproof_emulator.operations.list import Listing
from gpuproof_emulator.operations.request_checks import check_image, check_keys, check_network
from gpuproof_emulator.operations.supported_members import (
    ENDPOINT_MEMBERS,
    MODEL_MEMBERS,
    UPDATE_MEMBERS,
    WEIGHT_MEMBERS,
    reject_unsupported,
    unsupported,
)
from gpuproof_emulator.protocol import AwsError, now
from gpuproof_emulator.store import ENDPOINT, ENDPOINT_CONFIG, MODEL, Resource, resource_arn

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
_IN_PROGRESS = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
"""Statuses in which an endpoint cannot be deleted.

Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeEndpoint.html
"""
_ENDPOINTS = Listing(ENDPOINT, "Endpoints", "EndpointStatus", order="Descending")


def create_model(call: OperationCall) -> dict[str, Any]:
    """`CreateModel`."""
    request = call.request
    reject_unsupported(request, MODEL_MEMBERS)
    if len(request.get("Containers") or ()) > 1:
        raise unsupported("several Containers in one model (inference pipelines)")
    if not request.get("PrimaryContainer") and not request.get("Containers"):
        raise AwsError("ValidationException", "Either PrimaryContainer or Containers must be specified.")
    if role := request.get("ExecutionRoleArn"):
        check_role(call, role)
    check_network(call, request.get("VpcConfig"))
    for container in request.get("Containers") or [request["PrimaryContainer"]]:
        check_image(container.get("Image"))
        check_model_data(call, container)
    return {"ModelArn": _create(call, MODEL, request["ModelName"])}


def create_config(call: OperationCall) -> dict[str, Any]:
    """`CreateEndpointConfig`."""
    check_config(call.request)
    variants = call.request["ProductionVariants"]
    reject_duplicates([variant["VariantName"] for variant in variants], "Variant names must be unique")
    for variant in variants:
        name = variant.get("ModelName")
        check_variant(variant, _find(call, MODEL, name) if name else None)
    check_keys(call, call.request.get("KmsKeyId"))
    check_topics(call)
    return {"EndpointConfigArn": _create(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"])}


def create_endpoint(call: OperationCall) -> dict[str, Any]:
    """`CreateEndpoint`."""
    request = call.request
    check_deployment(request, ENDPOINT_MEMBERS)
    config = _find(call, ENDPOINT_CONFIG, request["EndpointConfigName"])
    instances = instances_of(config)
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
    check_deployment(call.request, UPDATE_MEMBERS)
    endpoint = _find(call, ENDPOINT, call.request["EndpointName"])
    config = _find(call, ENDPOINT_CONFIG, call.request["EndpointConfigName"])
    if endpoint.document["EndpointStatus"] != "InService":
        raise AwsError(
            "ValidationException",
            f'Cannot update in-progress or failed endpoint "{endpoint.document["EndpointArn"]}".',
        )
    excluded = {
        item["VariantPropertyType"] for item in call.request.get("ExcludeRetainedVariantProperties") or ()
    }
    if excluded and not call.request.get("RetainAllVariantProperties"):
        raise AwsError(
            "ValidationException", "ExcludeRetainedVariantProperties requires RetainAllVariantProperties."
        )
    _check_scaled_types(call, endpoint, config)
    retained = ALL_RETAINED - excluded if call.request.get("RetainAllVariantProperties") else NO_RETAINED
    with call.context.store.locked():
        # The new instances start before the old ones end.
        for instance_type, count in instances_of(config):
            check_quota_and_capacity(call, "endpoint", endpoint.name, instance_type, count)
        _set_updating(call, endpoint)
    call.endpoints.update(endpoint, config, retained)
    return {"EndpointArn": endpoint.document["EndpointArn"]}


def update_weights(call: OperationCall) -> dict[str, Any]:
    """`UpdateEndpointWeightsAndCapacities`: a variant runs in one container whatever its instance count."""
    reject_unsupported(call.request, WEIGHT_MEMBERS)
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
    _check_counts(call, endpoint, variants, changes)
    desired = {name: dict(variant) for name, variant in variants.items()}
    for change in changes:
        for member in ("DesiredWeight", "DesiredInstanceCount"):
            if member in change:
                desired[change["VariantName"]][member] = change[member]
    with call.context.store.modify(endpoint):
        _set_updating(call, endpoint)
        endpoint.document["ProductionVariants"] = [dict(variant) for variant in desired.values()]
    call.endpoints.set_capacities(endpoint, list(desired.values()))
    return {"EndpointArn": endpoint.arn}


def describe_endpoint(call: OperationCall) -> dict[str, Any]:
    """`DescribeEndpoint`."""
    return call.wait_until_settled(
        _find(call, ENDPOINT, call.request["EndpointName"]), "EndpointStatus"
    ).document


def delete_endpoint(call: OperationCall) -> dict[str, Any]:
    """`DeleteEndpoint`."""
    endpoint = _find(call, ENDPOINT, call.request["EndpointName"])
    if endpoint.document["EndpointStatus"] in _IN_PROGRESS:
        raise AwsError(
            "ValidationException", f'Cannot delete in-progress endpoint "{endpoint.document["EndpointArn"]}".'
        )
    call.endpoints.delete(endpoint)
    call.context.store.remove(endpoint)
    scalable_targets.deregister(call.context.clients, call.region, endpoint.name)
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


def _find(call: OperationCall, kind: str, name: str) -> Resource:
    return call.find(kind, name, f'{_MISSING[kind]} "{resource_arn(kind, call.region, name)}".')


def _set_updating(call: OperationCall, endpoint: Resource) -> None:
    with call.context.store.modify(endpoint):
        if endpoint.document["EndpointStatus"] != "InService":
            raise AwsError("ValidationException", f'Cannot update in-progress endpoint "{endpoint.arn}".')
        endpoint.document["EndpointStatus"] = "Updating"
        endpoint.document.pop("FailureReason", None)


def _check_scaled_types(call: OperationCall, endpoint: Resource, config: Resource) -> None:
    """Reject another instance type for a variant that is a scalable target.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
    """
    current = call.context.store.get(ENDPOINT_CONFIG, call.region, endpoint.document["EndpointConfigName"])
    old, new = (_types(item) if item else {} for item in (current, config))
    changed = [name for name, kind in old.items() if new.get(name, kind) != kind]
    if not changed:
        return
    scaled = scalable_targets.scaled_variants(call.context.clients, call.region, endpoint.name)
    if found := sorted(set(changed) & set(scaled)):
        raise AwsError(
            "ValidationException",
            f"Cannot change the instance type of the variant {found[0]}, which is registered for automatic scaling."
            " Deregister it first.",
        )


def _types(config: Resource) -> dict[str, str | None]:
    return {item["VariantName"]: item.get("InstanceType") for item in config.document["ProductionVariants"]}


def _check_counts(
    call: OperationCall,
    endpoint: Resource,
    variants: Mapping[str, dict[str, Any]],
    changes: list[dict[str, Any]],
) -> None:
    config = call.context.store.get(ENDPOINT_CONFIG, call.region, endpoint.document["EndpointConfigName"])
    types = _types(config) if config else {}
    for change in changes:
        name, count = change["VariantName"], change.get("DesiredInstanceCount")
        if count is None:
            continue
        if count == 0 and "AsyncInferenceConfig" not in endpoint.document:
            raise AwsError(
                "ValidationException", "DesiredInstanceCount can be 0 only for asynchronous endpoints."
            )
        more = count - variants[name].get("CurrentInstanceCount", 1)
        if more > 0 and (instance_type := types.get(name)):
            check_quota_and_capacity(call, "endpoint", endpoint.name, instance_type, more)
