"""Handlers for operations of other services that moto does not implement, or implements differently from AWS."""

from __future__ import annotations

from collections.abc import Callable

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.protocol import AwsRequest, AwsResponse
from gpuproof_emulator.routing import OperationName
from gpuproof_emulator.services import (
    autoscaling,
    cloudwatch,
    ec2_instances,
    ec2_spot_prices,
    iam_simulate,
    logs,
    pricing,
    resource_tagging,
    s3_bucket_policies,
    service_quotas,
    ssm_images,
)

Handler = Callable[[Context, Journal, AwsRequest], AwsResponse]

_HANDLERS: dict[tuple[str, str], Handler] = {
    **{("ec2", name): ec2_instances.handle for name in ec2_instances.OPERATIONS},
    **{("ec2", name): ec2_spot_prices.handle for name in ec2_spot_prices.OPERATIONS},
    **{("application-autoscaling", name): autoscaling.handle for name in autoscaling.OPERATIONS},
    **{("monitoring", name): cloudwatch.handle for name in cloudwatch.OPERATIONS},
    ("iam", "SimulatePrincipalPolicy"): iam_simulate.handle,
    **{("s3", name): s3_bucket_policies.handle for name in s3_bucket_policies.OPERATIONS},
    **{("logs", name): logs.handle for name in logs.OPERATIONS},
    **{("servicequotas", name): service_quotas.handle for name in service_quotas.OPERATIONS},
    **{("ssm", name): ssm_images.handle for name in ssm_images.OPERATIONS},
    **{("pricing", name): pricing.handle for name in pricing.OPERATIONS},
}


def find_handler(request: AwsRequest, operation: OperationName) -> Handler | None:
    """The handler of a request, or None if moto handles it."""
    if operation.operation == "GetResources" and request.target[0].startswith("ResourceGroupsTagging"):
        return resource_tagging.handle
    return _HANDLERS.get((operation.service, operation.operation))
