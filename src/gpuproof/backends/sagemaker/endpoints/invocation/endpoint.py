"""The endpoint of an invocation: whether it is in service, and of which kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.sagemaker.endpoints.invocation.errors import (
    MAX_ASYNC_BODY,
    MAX_BODY,
    MAX_SERVERLESS_BODY,
)
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.util.spelling import nearest_words

_SERVING = ("InService", "Updating", "SystemUpdating", "RollingBack")


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that can be invoked.

    Args:
        async_output: prefix in S3 of the results of an asynchronous endpoint; empty for other endpoints.
        serverless: whether it is serverless.
        variants: names of its production variants; empty if they are unknown.
        refused: why it could not be described, if a permission is missing; it is then taken for a real-time endpoint.
    """

    name: str
    async_output: str = ""
    serverless: bool = False
    variants: tuple[str, ...] = ()
    refused: AwsRefused | None = None

    @property
    def max_body(self) -> int:
        """Bytes of the body of a request."""
        if self.async_output:
            return MAX_ASYNC_BODY
        return MAX_SERVERLESS_BODY if self.serverless else MAX_BODY

    @property
    def log_group(self) -> str:
        """The CloudWatch log group of its containers."""
        return f"/aws/sagemaker/Endpoints/{self.name}"


def find_endpoint(aws: Aws, name: str) -> Endpoint:
    """An endpoint that is in service. Without permission to describe it, it is taken for a real-time endpoint.

    Raises:
        UsageError: it does not exist; the message names the nearest one.
        GPUproofError: it is not in service.
    """
    try:
        document = aws.call("sagemaker", "describe_endpoint", EndpointName=name)
    except AwsRefused as refused:
        if refused.is_permission:
            return Endpoint(name, refused=refused)
        if refused.is_missing:
            raise _missing(aws, name) from refused
        raise
    status = document["EndpointStatus"]
    if status not in _SERVING:
        raise _not_serving(aws, name, status, document.get("FailureReason", ""))
    variants: list[dict[str, Any]] = document.get("ProductionVariants") or []
    output = (document.get("AsyncInferenceConfig") or {}).get("OutputConfig") or {}
    return Endpoint(
        name,
        async_output=output.get("S3OutputPath", ""),
        serverless=any("CurrentServerlessConfig" in variant for variant in variants),
        variants=tuple(variant["VariantName"] for variant in variants),
    )


def _missing(aws: Aws, name: str) -> UsageError:
    try:
        pages = aws.call("sagemaker", "list_endpoints", MaxResults=100, SortBy="CreationTime")
        known = [item["EndpointName"] for item in pages["Endpoints"]]
    except AwsRefused:
        known = []
    near = nearest_words(name, known, 1)
    listed = "gpuproof predict takes the name of an endpoint, or http://HOST:PORT of a server."
    return UsageError(
        f"There is no endpoint {name} in {aws.region}.",
        remedy=f"Did you mean {near[0]}?" if near else listed,
    )


def _not_serving(aws: Aws, name: str, status: str, reason: str) -> GPUproofError:
    if status == "Failed":
        logs = f"aws logs tail /aws/sagemaker/Endpoints/{name}{aws.region_flag}"
        return GPUproofError(f"The endpoint {name} has failed: {reason or 'no reason is known'}", remedy=logs)
    wait = f"aws sagemaker wait endpoint-in-service --endpoint-name {name}{aws.region_flag}"
    remedy = wait if status == "Creating" else None
    return GPUproofError(f"The endpoint {name} is not in service; its status is {status}.", remedy=remedy)
