"""The Service Quotas API, for SageMaker's and EC2's instances."""

from __future__ import annotations

import uuid
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.operations.list import page
from gpuproof_emulator.protocol import ACCOUNT, AwsError, AwsRequest, AwsResponse, json_response, now
from gpuproof_emulator.quotas import DEFAULT_LIMIT, Quota, known_quotas

OPERATIONS = (
    "GetServiceQuota",
    "GetAWSDefaultServiceQuota",
    "ListServiceQuotas",
    "ListAWSDefaultServiceQuotas",
    "RequestServiceQuotaIncrease",
)
_NAMES = {"sagemaker": "Amazon SageMaker", "ec2": "Amazon Elastic Compute Cloud (Amazon EC2)"}


def handle(context: Context, _: Journal, request: AwsRequest) -> AwsResponse:
    """Handle any of the operations."""
    operation, document = request.target[1], request.document()
    service = document.get("ServiceCode", "")
    quotas_of_service = known_quotas(service)
    if operation.startswith("List"):
        quotas = [
            _described(context, request, service, quota, default="Default" in operation)
            for quota in quotas_of_service
        ]
        return json_response(request, page("Quotas", quotas, {"MaxResults": 100, **document}))
    code = document.get("QuotaCode", "")
    quota = next((item for item in quotas_of_service if item.code == code), None)
    if quota is None:
        raise AwsError("NoSuchResourceException", f"{service} has no quota {code}.")
    if operation == "RequestServiceQuotaIncrease":
        return json_response(
            request, {"RequestedQuota": _increase_request(service, quota, document["DesiredValue"])}
        )
    described = _described(context, request, service, quota, default="Default" in operation)
    return json_response(request, {"Quota": described})


def _described(
    context: Context, request: AwsRequest, service: str, quota: Quota, *, default: bool
) -> dict[str, Any]:
    region = request.region
    return {
        "ServiceCode": service,
        "ServiceName": _NAMES.get(service, service),
        "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:{service}/{quota.code}",
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": DEFAULT_LIMIT if default else context.quotas.limit(region, quota),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _increase_request(service: str, quota: Quota, value: float) -> dict[str, Any]:
    return {
        "Id": uuid.uuid4().hex,
        "ServiceCode": service,
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "DesiredValue": value,
        "Status": "PENDING",
        "Created": now(),
        "Requester": f'{{"accountId":"{ACCOUNT}"}}',
        "Unit": "None",
        "GlobalQuota": False,
    }
