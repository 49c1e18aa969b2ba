"""`DeregisterScalableTarget` of Application Auto Scaling, which deletes the target's scaling policies; moto keeps them.

Source: botocore's service model of `application-autoscaling`, DeregisterScalableTarget.
"""

from __future__ import annotations

from http import HTTPStatus

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsRequest, AwsResponse

OPERATIONS = ("DeregisterScalableTarget",)


def handle(context: Context, journal: Journal, request: AwsRequest) -> AwsResponse:
    """Handle `DeregisterScalableTarget`: have moto delete the target, then its policies."""
    response = journal.handle(request, read_only=False)
    if response.status != HTTPStatus.OK:
        return response
    document = request.document()
    client = context.clients.get("application-autoscaling", request.region)
    of_target = {name: document[name] for name in ("ServiceNamespace", "ResourceId", "ScalableDimension")}
    pages = client.get_paginator("describe_scaling_policies").paginate(**of_target)
    for name in [policy["PolicyName"] for page in pages for policy in page["ScalingPolicies"]]:
        client.delete_scaling_policy(PolicyName=name, **of_target)
    return response
