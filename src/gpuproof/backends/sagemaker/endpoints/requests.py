"""The requests that create an endpoint, as data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws.services.ec2 import tag_list
from gpuproof.jobs.models.endpoint import EndpointJob, Scaling

VARIANT = "AllTraffic"
"""The name of the only production variant, as both SageMaker SDKs name it."""

_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
_POLICY = "gpuproof-concurrency"
_SCHEDULE_MEMBERS = (
    "Name",
    "GroupName",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "EndDate",
    "Description",
    "State",
    "KmsKeyArn",
    "Target",
    "FlexibleTimeWindow",
    "ActionAfterCompletion",
)
"""The members of GetSchedule's response that UpdateSchedule accepts."""


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


def schedule_undo(endpoint: str) -> ApiCall:
    """The call that deletes an endpoint's schedule."""
    name = schedule_name(endpoint)
    return ApiCall("scheduler", "delete_schedule", {"Name": name}, f"delete the schedule {name}")


def scaling_undo(endpoint: str, variant: str = VARIANT) -> ApiCall:
    """The call that ends an endpoint's automatic scaling, with its policies and alarms."""
    return ApiCall(
        "application-autoscaling",
        "deregister_scalable_target",
        _scalable(endpoint, variant),
        f"end the automatic scaling of {endpoint}",
    )


def schedule_name(endpoint: str) -> str:
    """The name of the schedule that deletes an endpoint: at most 64 characters."""
    return f"gpuproof-{endpoint}"[:64]


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


def update_call(endpoint: str, config: str) -> ApiCall:
    """UpdateEndpoint: SageMaker starts the new instances next to the old ones, and switches when they are healthy."""
    request = {"EndpointName": endpoint, "EndpointConfigName": config}
    return ApiCall("sagemaker", "update_endpoint", request, f"update the endpoint {endpoint} to {config}")


def schedule_call(endpoint: str, at: float, role: str, partition: str) -> ApiCall:
    """CreateSchedule: deletes the endpoint once, and then the schedule itself.

    Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html

    Args:
        at: seconds since the epoch.
        role: the ARN of the role that EventBridge Scheduler assumes.
    """
    name = schedule_name(endpoint)
    moment = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    request = {
        "Name": name,
        "Description": f"GPUproof: deletes the endpoint {endpoint}",
        "ScheduleExpression": f"at({moment})",
        "ScheduleExpressionTimezone": "UTC",
        "FlexibleTimeWindow": {"Mode": "OFF"},
        "State": "ENABLED",
        "ActionAfterCompletion": "DELETE",
        "Target": {
            "Arn": f"arn:{partition}:scheduler:::aws-sdk:sagemaker:deleteEndpoint",
            "RoleArn": role,
            "Input": json.dumps({"EndpointName": endpoint}),
        },
    }
    what = f"create the schedule {name}, which deletes the endpoint at {moment} UTC"
    return ApiCall("scheduler", "create_schedule", request, what, schedule_undo(endpoint))


def schedule_update(call: ApiCall, stored: Mapping[str, Any]) -> ApiCall:
    """UpdateSchedule: replaces a schedule in one request, so that the endpoint never lacks one. Its undo restores the old one.

    Source: botocore's service model of `scheduler`; UpdateSchedule resets every member that a request does not have
    (https://docs.aws.amazon.com/scheduler/latest/APIReference/API_UpdateSchedule.html).

    Args:
        call: the call that would create the new schedule.
        stored: the description of the old schedule, from GetSchedule.
    """
    name, old = call.request["Name"], stored["ScheduleExpression"]
    request = {key: stored[key] for key in _SCHEDULE_MEMBERS if stored.get(key) not in (None, "")}
    undo = ApiCall("scheduler", "update_schedule", request, f"return the schedule {name} to {old}")
    what = f"move the schedule {name} from {old} to {call.request['ScheduleExpression']} UTC"
    return ApiCall("scheduler", "update_schedule", call.request, what, undo)


def scaling_calls(endpoint: str, scaling: Scaling) -> tuple[ApiCall, ApiCall]:
    """RegisterScalableTarget and PutScalingPolicy: keeps the number of concurrent requests of each instance.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-policy.html
    """
    target = _scalable(endpoint, VARIANT)
    register = ApiCall(
        "application-autoscaling",
        "register_scalable_target",
        {**target, "MinCapacity": scaling.minimum, "MaxCapacity": scaling.maximum},
        f"scale {endpoint} between {scaling.minimum} and {scaling.maximum} instances",
        scaling_undo(endpoint),
    )
    metric = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    policy = ApiCall(
        "application-autoscaling",
        "put_scaling_policy",
        {
            **target,
            "PolicyName": _POLICY,
            "PolicyType": "TargetTrackingScaling",
            "TargetTrackingScalingPolicyConfiguration": {
                "TargetValue": scaling.concurrency,
                "PredefinedMetricSpecification": {"PredefinedMetricType": metric},
            },
        },
        f"keep {scaling.concurrency:g} concurrent requests on each instance",
    )
    return register, policy


def _scalable(endpoint: str, variant: str) -> dict[str, Any]:
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{endpoint}/variant/{variant}",
        "ScalableDimension": _DIMENSION,
    }


def _asynchronous(job: EndpointJob) -> dict[str, Any]:
    output: dict[str, Any] = {"S3OutputPath": job.async_output}
    topics = {"SuccessTopic": job.async_success, "ErrorTopic": job.async_error}
    if known := {name: topic for name, topic in topics.items() if topic is not None}:
        output["NotificationConfig"] = known
    return {"OutputConfig": output}
