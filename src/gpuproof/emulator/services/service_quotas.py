"""Service Quotas, for SageMaker's instances."""

from __future__ import annotations

import uuid
from typing import Any

from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.operations.list import page
from gpuproof.emulator.protocol import ACCOUNT, Answer, AwsError, AwsRequest, json_answer, now
from gpuproof.emulator.quotas import ENOUGH, Quota, known_quotas

OPERATIONS = (
    "GetServiceQuota",
    "GetAWSDefaultServiceQuota",
    "ListServiceQuotas",
    "ListAWSDefaultServiceQuotas",
    "RequestServiceQuotaIncrease",
)
_NAMES = {"sagemaker": "Amazon SageMaker", "ec2": "Amazon Elastic Compute Cloud (Amazon EC2)"}


def answer(emulator: Emulator, request: AwsRequest) -> Answer:
    """Answer one of the operations."""
    operation, document = request.target[1], request.document()
    service = document.get("ServiceCode", "")
    own = known_quotas(service)
    if operation.startswith("List"):
        quotas = [
            _described(emulator, request, service, quota, default="Default" in operation) for quota in own
        ]
        return json_answer(request, page("Quotas", quotas, {"MaxResults": 100, **document}))
    code = document.get("QuotaCode", "")
    quota = next((item for item in own if item.code == code), None)
    if quota is None:
        raise AwsError("NoSuchResourceException", f"There is no quota {code} of {service}.")
    if operation == "RequestServiceQuotaIncrease":
        return json_answer(request, {"RequestedQuota": _request(service, quota, document["DesiredValue"])})
    described = _described(emulator, request, service, quota, default="Default" in operation)
    return json_answer(request, {"Quota": described})


def _described(
    emulator: Emulator, request: AwsRequest, service: str, quota: Quota, *, default: bool
) -> dict[str, Any]:
    region = request.region
    return {
        "ServiceCode": service,
        "ServiceName": _NAMES.get(service, service),
        "QuotaArn": f"arn:aws:servicequotas:{region}:{ACCOUNT}:{service}/{quota.code}",
        "QuotaCode": quota.code,
        "QuotaName": quota.name,
        "Value": ENOUGH if default else emulator.quotas.limit(region, quota),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _request(service: str, quota: Quota, value: float) -> dict[str, Any]:
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
