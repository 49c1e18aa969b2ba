"""Requests to EventBridge Scheduler and Application Auto Scaling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuproof.backends.aws.session import AwsSession

_VARIANTS = {"ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount"}


class SchedulingCalls(AwsSession):
    """The client's methods for schedules, and for the scaling of endpoints."""

    def schedule(self, name: str, group: str | None = None) -> dict[str, Any] | None:
        """The description of a schedule; None if it does not exist, or no longer.

        Args:
            group: its group; the default one if None.
        """
        request = {"Name": name} if group is None else {"Name": name, "GroupName": group}
        return self._find("scheduler", "get_schedule", request, f"schedule {name}")

    def scalable_variants(self, endpoint: str, variants: list[str]) -> list[dict[str, Any]]:
        """The scalable targets of an endpoint's variants."""
        if not variants:
            return []
        ids = [f"endpoint/{endpoint}/variant/{variant}" for variant in variants]
        return list(self._scalable_targets({"ResourceIds": ids}, f"endpoint {endpoint}"))

    def scaling_policies(self, resource: str) -> list[dict[str, Any]]:
        """The scaling policies of a variant.

        Args:
            resource: its ResourceId, such as `endpoint/NAME/variant/AllTraffic`.
        """
        request = {**_VARIANTS, "ResourceId": resource}
        operation = "describe_scaling_policies"
        return list(self._items("application-autoscaling", operation, "ScalingPolicies", request, resource))

    def _scalable_targets(
        self, request: dict[str, Any], subject: str | None = None
    ) -> Iterator[dict[str, Any]]:
        request = {**_VARIANTS, **request}
        yield from self._items(
            "application-autoscaling", "describe_scalable_targets", "ScalableTargets", request, subject
        )
