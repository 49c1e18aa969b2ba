"""`DeregisterScalableTarget` of Application Auto Scaling, which deletes the target's scaling policies; moto keeps them.

Source: botocore's service model of `application-autoscaling`, DeregisterScalableTarget.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse

OPERATIONS = ("DeregisterScalableTarget",)


def handle(context: Context, journal: Journal, request: AwsRequest) -> AwsResponse:
    """Handle `DeregisterScalableTarget`: have moto delete the target, then its policies."""
    response = journal.handle(request, read_only=False)
    document = request.document()
    client = context.clients.get("application-autoscaling", request.region)
    of_target = {name: document.get(name) for name in ("ServiceNamespace", "ResourceId", "ScalableDimension")}
    if response.status != HTTPStatus.OK:
        if all(of_target.values()) and not _targets(client, **of_target):
            # moto reports a ValidationException.
            resource = of_target["ResourceId"]
            raise AwsError("ObjectNotFoundException", f"No scalable target found for resource ID: {resource}")
        return response
    pages = client.get_paginator("describe_scaling_policies").paginate(**of_target)
    for name in [policy["PolicyName"] for page in pages for policy in page["ScalingPolicies"]]:
        client.delete_scaling_policy(PolicyName=name, **of_target)
    return response


def _targets(client: Any, **of_target: Any) -> list[dict[str, Any]]:
    resource = of_target.pop("ResourceId")
    return client.describe_scalable_targets(**of_target, ResourceIds=[resource])["ScalableTargets"]
