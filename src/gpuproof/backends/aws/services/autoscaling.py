"""Requests to Application Auto Scaling."""

from __future__ import annotations

from typing import Any

from gpuproof.backends.aws.session import AwsSession


class AutoScalingCalls(AwsSession):
    """The client's method for the scaling of endpoints."""

    def scalable_variants(self, endpoint: str, variants: list[str]) -> list[dict[str, Any]]:
        """The scalable targets of an endpoint's variants."""
        if not variants:
            return []
        request = {
            "ServiceNamespace": "sagemaker",
            "ResourceIds": [f"endpoint/{endpoint}/variant/{variant}" for variant in variants],
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        }
        return self._request(
            "application-autoscaling", "describe_scalable_targets", request, f"endpoint {endpoint}"
        )["ScalableTargets"]
