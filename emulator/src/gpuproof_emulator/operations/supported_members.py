"""Which members of a request the emulator supports; the others are rejected by name, and not accepted and ignored.

Members that describe the hardware of an instance (type, volume, AMI, KMS key, registry of the image) are recorded: the emulator has no such
hardware. All members are those of botocore's service model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.protocol import AwsError

Members = Mapping[str, Any]
"""A supported member's own members, or None if all of them are supported."""


def _all(*names: str) -> dict[str, None]:
    return dict.fromkeys(names)


_MODEL_DATA: Members = {"S3DataSource": _all("S3Uri", "S3DataType", "CompressionType", "ModelAccessConfig")}
_CONTAINER: Members = {
    **_all("ContainerHostname", "Image", "ImageConfig", "Mode", "ModelDataUrl", "Environment"),
    "ModelDataSource": _MODEL_DATA,
    "AdditionalModelDataSources": {"ChannelName": None, **_MODEL_DATA},
}
_DEPLOYMENT: Members = {
    "BlueGreenUpdatePolicy": {
        "TrafficRoutingConfiguration": _all("Type", "WaitIntervalInSeconds"),
        **_all("TerminationWaitInSeconds", "MaximumExecutionTimeoutInSeconds"),
    }
}
MODEL_MEMBERS: Members = {
    **_all("ModelName", "ExecutionRoleArn", "Tags", "VpcConfig", "EnableNetworkIsolation"),
    "PrimaryContainer": _CONTAINER,
    "Containers": _CONTAINER,
}
CONFIG_MEMBERS: Members = {
    **_all("EndpointConfigName", "DataCaptureConfig", "Tags", "KmsKeyId"),
    "ProductionVariants": {
        **_all("VariantName", "ModelName", "InitialInstanceCount", "InstanceType", "InitialVariantWeight"),
        **_all("VolumeSizeInGB", "InferenceAmiVersion", "ModelDataDownloadTimeoutInSeconds"),
        **_all("ContainerStartupHealthCheckTimeoutInSeconds"),
        "ServerlessConfig": _all("MemorySizeInMB", "MaxConcurrency"),
        "RoutingConfig": _all("RoutingStrategy"),
    },
    "AsyncInferenceConfig": {
        "ClientConfig": None,
        "OutputConfig": {
            **_all("KmsKeyId", "S3OutputPath", "S3FailurePath"),
            "NotificationConfig": _all("SuccessTopic", "ErrorTopic"),
        },
    },
}
ENDPOINT_MEMBERS: Members = {
    **_all("EndpointName", "EndpointConfigName", "Tags"),
    "DeploymentConfig": _DEPLOYMENT,
}
UPDATE_MEMBERS: Members = {
    **_all("EndpointName", "EndpointConfigName", "RetainAllVariantProperties"),
    **_all("ExcludeRetainedVariantProperties", "RetainDeploymentConfig"),
    "DeploymentConfig": _DEPLOYMENT,
}
WEIGHT_MEMBERS: Members = {
    "EndpointName": None,
    "DesiredWeightsAndCapacities": _all("VariantName", "DesiredWeight", "DesiredInstanceCount"),
}
TRANSFORM_MEMBERS: Members = {
    **_all("TransformJobName", "ModelName", "MaxConcurrentTransforms", "MaxPayloadInMB", "BatchStrategy"),
    **_all("Environment", "Tags"),
    "ModelClientConfig": None,
    "TransformInput": {
        "DataSource": {"S3DataSource": _all("S3DataType", "S3Uri")},
        **_all("ContentType", "CompressionType", "SplitType"),
    },
    "TransformOutput": None,
    "TransformResources": _all("InstanceType", "InstanceCount", "VolumeKmsKeyId", "TransformAmiVersion"),
    "DataProcessing": _all("JoinSource", "InputFilter", "OutputFilter"),
}


def reject_unsupported(request: Mapping[str, Any], members: Members, path: str = "") -> None:
    """Reject a request with a member that the emulator does not support.

    Raises:
        AwsError: it has one that is set; the message has its path.
    """
    for name, value in request.items():
        if value in (None, False, [], {}):
            continue
        where = f"{path}.{name}" if path else name
        if name not in members:
            raise unsupported(where)
        below = members[name]
        for item in value if isinstance(value, list) else [value]:
            if below is not None and isinstance(item, Mapping):
                reject_unsupported(item, below, where)


def reject_value(path: str, value: Any, supported: tuple[Any, ...]) -> None:
    """Reject a value of a member that the emulator does not support; None is supported."""
    if value is not None and value not in supported:
        raise unsupported(f"{path}={value}")


def unsupported(what: str) -> AwsError:
    """The error for something that the emulator does not support."""
    return AwsError("ValidationException", f"This emulator does not support {what}.")
