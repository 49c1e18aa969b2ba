"""Checks of what endpoint configurations and endpoints refer to, and of combinations that SageMaker or the emulator does not support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.execution.endpoints.container_spec import model_data
from gpuproof_emulator.execution.s3_sync import S3Location
from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.operations.supported_members import (
    CONFIG_MEMBERS,
    Members,
    reject_unsupported,
    reject_value,
    unsupported,
)
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.store import Resource

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariantServerlessConfig.html
_MEMORY_SIZES = (1024, 2048, 3072, 4096, 5120, 6144)  # MB


def check_config(request: Mapping[str, Any]) -> None:
    """Check the members of `CreateEndpointConfig`.

    Raises:
        AwsError: the emulator does not support one of them, or SageMaker not their combination.
    """
    reject_unsupported(request, CONFIG_MEMBERS)
    variants = request["ProductionVariants"]
    if not any(variant.get("ServerlessConfig") for variant in variants):
        return
    # https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html
    for member in ("AsyncInferenceConfig", "DataCaptureConfig"):
        if request.get(member):
            raise AwsError("ValidationException", f"{member} is not supported for serverless endpoints.")
    if len(variants) > 1:
        raise AwsError("ValidationException", "Serverless endpoints support one production variant.")


def check_variant(variant: Mapping[str, Any], model: Resource | None) -> None:
    """Check one variant of an endpoint configuration.

    Args:
        variant: the variant.
        model: its model; None if it names none.

    Raises:
        AwsError: the variant is invalid.
    """
    if model is None:
        raise unsupported("a variant without ModelName (inference components)")
    reject_value(
        "ProductionVariants.RoutingConfig.RoutingStrategy",
        (variant.get("RoutingConfig") or {}).get("RoutingStrategy"),
        ("RANDOM", "LEAST_OUTSTANDING_REQUESTS"),
    )
    serverless = variant.get("ServerlessConfig")
    if serverless is None:
        if not variant.get("InstanceType"):
            raise AwsError(
                "ValidationException",
                f"The variant {variant['VariantName']} needs InstanceType or ServerlessConfig.",
            )
        return
    if variant.get("InstanceType"):
        raise AwsError("ValidationException", "InstanceType and ServerlessConfig exclude each other.")
    if serverless["MemorySizeInMB"] not in _MEMORY_SIZES:
        raise AwsError(
            "ValidationException",
            f"1 validation error detected: Value '{serverless['MemorySizeInMB']}' at 'memorySizeInMB' failed to satisfy"
            f" constraint: Member must satisfy enum value set: [{', '.join(map(str, _MEMORY_SIZES))}]",
        )
    containers = model.document.get("Containers") or [model.document["PrimaryContainer"]]
    if containers[0].get("Mode") == "MultiModel":
        raise AwsError("ValidationException", "Serverless endpoints do not support multi-model containers.")
    reject_model_data_source(model, "Serverless endpoints do")


def reject_model_data_source(model: Resource, subject: str) -> None:
    """Reject a model with `ModelDataSource` where SageMaker does not support it.

    Source: the documentation of ContainerDefinition$ModelDataSource in botocore's service model of `sagemaker`. The text is the
    emulator's own.

    Args:
        subject: of the message, with its verb: `Serverless endpoints do`.

    Raises:
        AwsError: a container of the model has it.
    """
    for container in model.document.get("Containers") or [model.document["PrimaryContainer"]]:
        if container.get("ModelDataSource"):
            raise AwsError("ValidationException", f"{subject} not support ModelDataSource; use ModelDataUrl.")


def check_topics(call: OperationCall) -> None:
    """Reject notification topics that do not exist.

    Raises:
        AwsError: SNS has no such topic.
    """
    output = (call.request.get("AsyncInferenceConfig") or {}).get("OutputConfig") or {}
    if call.request.get("AsyncInferenceConfig") and not output.get("S3OutputPath"):
        raise unsupported("an asynchronous endpoint without S3OutputPath")
    sns = call.context.clients.get("sns", call.region)
    for topic in (output.get("NotificationConfig") or {}).values():
        try:
            sns.get_topic_attributes(TopicArn=topic)
        except sns.exceptions.ClientError as error:
            raise AwsError("ValidationException", f"Could not find the SNS topic {topic}.") from error


def check_deployment(request: Mapping[str, Any], members: Members) -> None:
    """Check the members of `CreateEndpoint` or `UpdateEndpoint`: all traffic moves at once.

    Raises:
        AwsError: the emulator does not support one of them.
    """
    reject_unsupported(request, members)
    policy = (request.get("DeploymentConfig") or {}).get("BlueGreenUpdatePolicy") or {}
    reject_value(
        "DeploymentConfig.BlueGreenUpdatePolicy.TrafficRoutingConfiguration.Type",
        (policy.get("TrafficRoutingConfiguration") or {}).get("Type"),
        ("ALL_AT_ONCE",),
    )


def check_model_data(call: OperationCall, container: dict[str, Any]) -> None:
    """Reject a container definition whose model data does not exist.

    Raises:
        AwsError: nothing is at its address, or a multi-model container names no prefix.
    """
    data = model_data(container)
    if container.get("Mode") == "MultiModel" and not container.get("ModelDataUrl"):
        raise AwsError("ValidationException", "A multi-model container needs ModelDataUrl, a prefix in S3.")
    if data is None or container.get("Mode") == "MultiModel":
        return
    location = S3Location.parse(data.uri)
    s3 = call.context.clients.get("s3", call.region)
    try:
        found = s3.list_objects_v2(Bucket=location.bucket, Prefix=location.key, MaxKeys=1)["KeyCount"]
    except s3.exceptions.ClientError:
        found = 0
    if not found:
        raise AwsError("ValidationException", f"Could not find model data at {data.uri}.")
