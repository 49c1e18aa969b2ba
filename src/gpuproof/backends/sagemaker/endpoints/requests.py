"""The requests that create an endpoint, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws.services.ec2 import tag_list
from gpuproof.backends.remote.deletion_schedule import DeletionSchedule, schedule_name
from gpuproof.jobs.models.endpoint import EndpointJob

VARIANT = "AllTraffic"
"""The name of the only production variant, as both SageMaker SDKs name it."""


def endpoint_undo(name: str) -> ApiCall:
    """The call that deletes an endpoint."""
    return ApiCall("sagemaker", "delete_endpoint", {"EndpointName": name}, f"delete the endpoint {name}")


def config_undo(name: str) -> ApiCall:
    """The call that deletes an endpoint configuration."""
    request = {"EndpointConfigName": name}
    return ApiCall(
        "sagemaker", "delete_endpoint_config", request, f"delete the endpoint configuration {name}"
    )


def model_undo(name: str) -> ApiCall:
    """The call that deletes a model; its files in S3 stay."""
    return ApiCall("sagemaker", "delete_model", {"ModelName": name}, f"delete the model {name}")


def schedule_of(endpoint: str) -> DeletionSchedule:
    """The schedule that deletes an endpoint."""
    return DeletionSchedule(
        schedule_name(endpoint),
        f"the endpoint {endpoint}",
        "sagemaker:deleteEndpoint",
        {"EndpointName": endpoint},
    )


def model_call(
    name: str,
    job: EndpointJob,
    container: Mapping[str, Any],
    role: str,
    tags: Mapping[str, str],
) -> ApiCall:
    """CreateModel."""
    request: dict[str, Any] = {
        "ModelName": name,
        "ExecutionRoleArn": role,
        "PrimaryContainer": dict(container),
        "Tags": tag_list(tags),
    }
    if job.network_isolation:
        request["EnableNetworkIsolation"] = True
    return ApiCall("sagemaker", "create_model", request, f"create the model {name}", model_undo(name))


def config_call(name: str, job: EndpointJob, ami: str | None, tags: Mapping[str, str]) -> ApiCall:
    """CreateEndpointConfig."""
    variant: dict[str, Any] = {"VariantName": VARIANT, "ModelName": name}
    if job.serverless is not None:
        size = job.serverless
        variant["ServerlessConfig"] = {"MemorySizeInMB": size.memory_mb, "MaxConcurrency": size.concurrency}
    else:
        variant["InstanceType"] = job.instance_type
        variant["InitialInstanceCount"] = job.instance_count
        variant["InitialVariantWeight"] = 1.0
        if ami is not None:
            variant["InferenceAmiVersion"] = ami
        if job.startup_timeout is not None:
            variant["ContainerStartupHealthCheckTimeoutInSeconds"] = job.startup_timeout.seconds
    request: dict[str, Any] = {
        "EndpointConfigName": name,
        "ProductionVariants": [variant],
        "Tags": tag_list(tags),
    }
    if job.async_output is not None:
        request["AsyncInferenceConfig"] = _asynchronous(job)
    if job.data_capture is not None:
        request["DataCaptureConfig"] = {
            "EnableCapture": True,
            "InitialSamplingPercentage": job.data_capture.percent,
            "DestinationS3Uri": job.data_capture.address,
            "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
        }
    what = f"create the endpoint configuration {name}"
    return ApiCall("sagemaker", "create_endpoint_config", request, what, config_undo(name))


def endpoint_call(endpoint: str, config: str, tags: Mapping[str, str]) -> ApiCall:
    """CreateEndpoint."""
    request = {"EndpointName": endpoint, "EndpointConfigName": config, "Tags": tag_list(tags)}
    what = f"create the endpoint {endpoint}"
    return ApiCall("sagemaker", "create_endpoint", request, what, endpoint_undo(endpoint))


def update_call(endpoint: str, config: str, *, keeps_count: bool = False) -> ApiCall:
    """UpdateEndpoint: SageMaker starts the new instances next to the old ones, and switches when they are healthy.

    Args:
        keeps_count: whether the variant keeps its number of instances, which its scaling has set.
    """
    request: dict[str, Any] = {"EndpointName": endpoint, "EndpointConfigName": config}
    if keeps_count:
        # Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html
        request["RetainAllVariantProperties"] = True
        request["ExcludeRetainedVariantProperties"] = [
            {"VariantPropertyType": kind} for kind in ("DesiredWeight", "DataCaptureConfig")
        ]
    return ApiCall("sagemaker", "update_endpoint", request, f"update the endpoint {endpoint} to {config}")


def _asynchronous(job: EndpointJob) -> dict[str, Any]:
    output: dict[str, Any] = {"S3OutputPath": job.async_output}
    topics = {"SuccessTopic": job.async_success, "ErrorTopic": job.async_error}
    if known := {name: topic for name, topic in topics.items() if topic is not None}:
        output["NotificationConfig"] = known
    return {"OutputConfig": output}
