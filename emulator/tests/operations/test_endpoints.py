"""Weights of an endpoint's variants can be changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.operations import OPERATIONS
from gpuproof_emulator.operations.supported_members import (
    CONFIG_MEMBERS,
    ENDPOINT_MEMBERS,
    MODEL_MEMBERS,
    TRANSFORM_MEMBERS,
    UPDATE_MEMBERS,
    WEIGHT_MEMBERS,
)
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.service_model import operation_model
from gpuproof_emulator.store import Resource
from support.cli_sandbox import until
from support.emulator_context import make_call, make_context

SERVERLESS = {"MemorySizeInMB": 1024, "MaxConcurrency": 1}


@pytest.fixture
def endpoint() -> Resource:
    variants = [
        {
            "VariantName": name,
            "CurrentWeight": 1.0,
            "DesiredWeight": 1.0,
            "CurrentInstanceCount": 1,
            "DesiredInstanceCount": 1,
        }
        for name in ("v1", "v2")
    ]
    document = {
        "EndpointName": "e",
        "EndpointConfigName": "c",
        "EndpointStatus": "InService",
        "ProductionVariants": variants,
    }
    return Resource("endpoint", "us-east-1", "e", document)


def test_weights_and_counts_change(tmp_path: Path, endpoint: Resource) -> None:
    _update(tmp_path, endpoint, {"VariantName": "v2", "DesiredWeight": 3.0, "DesiredInstanceCount": 4})
    until(lambda: endpoint.document["EndpointStatus"] == "InService", "the end of the update")
    first, second = endpoint.document["ProductionVariants"]
    assert (first["CurrentWeight"], first["CurrentInstanceCount"]) == (1.0, 1)
    assert (second["CurrentWeight"], second["DesiredWeight"], second["CurrentInstanceCount"]) == (3.0, 3.0, 4)


@pytest.mark.parametrize(
    ("names", "said"),
    [(["v1", "v1"], "non-unique"), (["v3"], 'variant name(s) "v3" is/are not present within')],
)
def test_unknown_and_duplicate_variants_are_rejected(
    tmp_path: Path, endpoint: Resource, names: list[str], said: str
) -> None:
    with pytest.raises(AwsError) as caught:
        _update(tmp_path, endpoint, *({"VariantName": name, "DesiredWeight": 1.0} for name in names))
    assert said in caught.value.message


def test_an_endpoint_that_is_being_created_is_not_changed(tmp_path: Path, endpoint: Resource) -> None:
    endpoint.document["EndpointStatus"] = "Creating"
    with pytest.raises(AwsError, match="Cannot update in-progress endpoint"):
        _update(tmp_path, endpoint, {"VariantName": "v1", "DesiredWeight": 1.0})


def test_a_serverless_variant_has_one_of_awss_memory_sizes(tmp_path: Path) -> None:
    serverless = {"MemorySizeInMB": 1000, "MaxConcurrency": 1}
    variant = {"VariantName": "v", "ModelName": "m", "ServerlessConfig": serverless}
    request = {"EndpointConfigName": "c", "ProductionVariants": [variant]}
    with pytest.raises(
        AwsError, match=r"'1000' at 'memorySizeInMB' .* \[1024, 2048, 3072, 4096, 5120, 6144\]"
    ):
        _configure(tmp_path, request)


@pytest.mark.parametrize(
    ("variant", "changes", "said"),
    [
        ({"CoreDumpConfig": {"DestinationS3Uri": "s3://b/c"}}, {}, "ProductionVariants.CoreDumpConfig"),
        ({"ManagedInstanceScaling": {"Status": "ENABLED"}}, {}, "ProductionVariants.ManagedInstanceScaling"),
        ({"EnableSSMAccess": True}, {}, "ProductionVariants.EnableSSMAccess"),
        ({"RoutingConfig": {"RoutingStrategy": "KV_AWARE"}}, {}, "RoutingStrategy=KV_AWARE"),
        ({}, {"ShadowProductionVariants": [{"VariantName": "s"}]}, "ShadowProductionVariants"),
        ({}, {"ExplainerConfig": {"ClarifyExplainerConfig": {}}}, "ExplainerConfig"),
        ({}, {"ExecutionRoleArn": "arn:aws:iam::123456789012:role/r"}, "ExecutionRoleArn"),
        (
            {},
            {
                "AsyncInferenceConfig": {
                    "OutputConfig": {
                        "S3OutputPath": "s3://b/o",
                        "NotificationConfig": {"IncludeInferenceResponseIn": ["SUCCESS_NOTIFICATION_TOPIC"]},
                    }
                }
            },
            "AsyncInferenceConfig.OutputConfig.NotificationConfig.IncludeInferenceResponseIn",
        ),
        ({"ModelName": None}, {}, "a variant without ModelName (inference components)"),
        (
            {"InstanceType": None, "ServerlessConfig": {**SERVERLESS, "ProvisionedConcurrency": 1}},
            {},
            "ServerlessConfig.ProvisionedConcurrency",
        ),
    ],
)
def test_what_the_emulator_does_not_support_is_rejected_by_name(
    tmp_path: Path, variant: dict[str, Any], changes: dict[str, Any], said: str
) -> None:
    plain = {"VariantName": "v", "ModelName": "m", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 1}
    chosen = {name: value for name, value in {**plain, **variant}.items() if value is not None}
    request = {"EndpointConfigName": "c", "ProductionVariants": [chosen], **changes}
    with pytest.raises(AwsError) as caught:
        _configure(tmp_path, request)
    assert caught.value.code == "ValidationException"
    assert said in caught.value.message
    assert "This emulator does not support" in caught.value.message


@pytest.mark.parametrize(
    ("variants", "changes", "said"),
    [
        (1, {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://b/o"}}}, "AsyncInferenceConfig"),
        (2, {}, "one production variant"),
    ],
)
def test_serverless_endpoints_exclude_what_sagemaker_excludes(
    tmp_path: Path, variants: int, changes: dict[str, Any], said: str
) -> None:
    made = [
        {"VariantName": f"v{n}", "ModelName": "m", "ServerlessConfig": SERVERLESS} for n in range(variants)
    ]
    with pytest.raises(AwsError, match=said):
        _configure(tmp_path, {"EndpointConfigName": "c", "ProductionVariants": made, **changes})


def test_only_traffic_that_moves_at_once_is_supported(tmp_path: Path) -> None:
    policy = {"TrafficRoutingConfiguration": {"Type": "CANARY", "WaitIntervalInSeconds": 0}}
    request = {
        "EndpointName": "e",
        "EndpointConfigName": "c",
        "DeploymentConfig": {"BlueGreenUpdatePolicy": policy},
    }
    with pytest.raises(AwsError, match="Type=CANARY"):
        OPERATIONS["UpdateEndpoint"](make_call(make_context(tmp_path), request))


def test_every_member_of_botocores_model_is_either_supported_or_known_to_be_rejected() -> None:
    """A new member of AWS's is rejected; one that disappears from the model must leave the table too."""
    for operation, members in (
        ("CreateModel", MODEL_MEMBERS),
        ("CreateEndpointConfig", CONFIG_MEMBERS),
        ("CreateEndpoint", ENDPOINT_MEMBERS),
        ("UpdateEndpoint", UPDATE_MEMBERS),
        ("UpdateEndpointWeightsAndCapacities", WEIGHT_MEMBERS),
        ("CreateTransformJob", TRANSFORM_MEMBERS),
    ):
        model = operation_model(operation)
        assert model is not None
        _assert_in_model(model.input_shape, members)


def _assert_in_model(shape: Any, members: Any) -> None:
    if shape.type_name == "list":
        shape = shape.member
    for name, below in members.items():
        assert name in shape.members, name
        if below is not None:
            _assert_in_model(shape.members[name], below)


def _configure(folder: Path, request: dict[str, Any]) -> None:
    context = make_context(folder)
    context.store.add(Resource("model", "us-east-1", "m", {"PrimaryContainer": {"Image": "i"}}))
    OPERATIONS["CreateEndpointConfig"](make_call(context, request))


def _update(folder: Path, endpoint: Resource, *changes: dict[str, Any]) -> None:
    context = make_context(folder)
    context.store.add(endpoint)
    request = {"EndpointName": "e", "DesiredWeightsAndCapacities": list(changes)}
    OPERATIONS["UpdateEndpointWeightsAndCapacities"](make_call(context, request))
