"""The automatic scaling of endpoints: its requests, and what a variant has already.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-policy.html
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws
from gpuproof.backends.sagemaker.endpoints.requests import VARIANT
from gpuproof.jobs.models.endpoint import EndpointJob

_SERVICE = "application-autoscaling"
_DIMENSION = "sagemaker:variant:DesiredInstanceCount"
_POLICY = "gpuproof-concurrency"
_CONCURRENCY = {
    "PredefinedMetricSpecification": {
        "PredefinedMetricType": "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    }
}
_POLICY_MEMBERS = (
    "PolicyName",
    "PolicyType",
    "StepScalingPolicyConfiguration",
    "TargetTrackingScalingPolicyConfiguration",
    "PredictiveScalingPolicyConfiguration",
)
"""The members of DescribeScalingPolicies' response that PutScalingPolicy accepts, beside those of the target."""


def scaling_calls(job: EndpointJob) -> tuple[ApiCall, ...]:
    """RegisterScalableTarget and PutScalingPolicy, which keeps the number of requests of each instance; none without scaling."""
    scaling = job.scaling
    if scaling is None:
        return ()
    target, what = (
        _target(job.name, VARIANT),
        f"keep {scaling.concurrency:g} concurrent requests on each instance",
    )
    metric: Mapping[str, Any] = _CONCURRENCY
    if job.async_output is not None:
        metric, what = _backlog(job.name), f"keep {scaling.concurrency:g} queued requests for each instance"
    policy = {
        "PolicyName": _POLICY,
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": {"TargetValue": scaling.concurrency, **metric},
    }
    return (
        _register(job.name, VARIANT, scaling.minimum, scaling.maximum),
        ApiCall(_SERVICE, "put_scaling_policy", {**target, **policy}, what),
    )


def scaling_undo(endpoint: str, variant: str = VARIANT) -> ApiCall:
    """The call that ends an endpoint's automatic scaling, with its policies and alarms."""
    return ApiCall(
        _SERVICE,
        "deregister_scalable_target",
        _target(endpoint, variant),
        f"end the automatic scaling of {endpoint}",
    )


def existing_scaling(aws: Aws, endpoint: str, variant: str = VARIANT) -> tuple[ApiCall, ...]:
    """The calls that would register the automatic scaling that a variant has now, with all of its policies; none if it has none."""
    calls: list[ApiCall] = []
    for target in aws.scalable_variants(endpoint, [variant]):
        calls.append(_register(endpoint, variant, target["MinCapacity"], target["MaxCapacity"]))
        for policy in aws.scaling_policies(target["ResourceId"]):
            request = {name: policy[name] for name in _POLICY_MEMBERS if policy.get(name)}
            what = f"put the scaling policy {policy['PolicyName']} of {endpoint}"
            calls.append(
                ApiCall(_SERVICE, "put_scaling_policy", {**_target(endpoint, variant), **request}, what)
            )
    return tuple(calls)


def instance_type_of(aws: Aws, config: str) -> str | None:
    """The instance type of the variant of an endpoint configuration; None if it is serverless."""
    found = aws.describe_endpoint_config(config) or {}
    variants = found.get("ProductionVariants") or ({},)
    return variants[0].get("InstanceType")


def _register(endpoint: str, variant: str, minimum: int, maximum: int) -> ApiCall:
    return ApiCall(
        _SERVICE,
        "register_scalable_target",
        {**_target(endpoint, variant), "MinCapacity": minimum, "MaxCapacity": maximum},
        f"scale {endpoint} between {minimum} and {maximum} instances",
        scaling_undo(endpoint, variant),
    )


def _target(endpoint: str, variant: str) -> dict[str, Any]:
    return {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{endpoint}/variant/{variant}",
        "ScalableDimension": _DIMENSION,
    }


def _backlog(endpoint: str) -> dict[str, Any]:
    """The metric of asynchronous endpoints, which publish no other that scaling could use.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/async-inference-autoscale.html
    """
    return {
        "CustomizedMetricSpecification": {
            "MetricName": "ApproximateBacklogSizePerInstance",
            "Namespace": "AWS/SageMaker",
            "Dimensions": [{"Name": "EndpointName", "Value": endpoint}],
            "Statistic": "Average",
        }
    }
