"""Application Auto Scaling: a scalable target ends with its policies, and with those of no other target."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.emulator_jobs import Account

pytestmark = pytest.mark.slow


def test_deregistering_a_target_deletes_its_policies_and_no_others(aws: Account) -> None:
    first, second = (_scaled(aws) for _ in range(2))
    aws.client("application-autoscaling").deregister_scalable_target(**first)
    assert _policies(aws, first) == []
    assert _policies(aws, second) == ["one", "two"]
    aws.client("application-autoscaling").deregister_scalable_target(**second)
    assert _policies(aws, second) == []


def test_a_target_that_is_not_registered_is_an_error(aws: Account) -> None:
    target = _scaled(aws)
    client = aws.client("application-autoscaling")
    client.deregister_scalable_target(**target)
    with pytest.raises(ClientError, match="No scalable target found"):
        client.deregister_scalable_target(**target)


def _scaled(aws: Account) -> dict[str, Any]:
    target = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{aws.name()}/variant/AllTraffic",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    client = aws.client("application-autoscaling")
    client.register_scalable_target(**target, MinCapacity=1, MaxCapacity=2)
    metric = {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}
    for name in ("one", "two"):
        client.put_scaling_policy(
            PolicyName=name,
            PolicyType="TargetTrackingScaling",
            TargetTrackingScalingPolicyConfiguration={
                "TargetValue": 5.0,
                "PredefinedMetricSpecification": metric,
            },
            **target,
        )
    return target


def _policies(aws: Account, target: dict[str, Any]) -> list[str]:
    found = aws.client("application-autoscaling").describe_scaling_policies(**target)
    return sorted(policy["PolicyName"] for policy in found["ScalingPolicies"])
