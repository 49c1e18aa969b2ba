"""Reads identity and quota from AWS for `account.py`, in a separate process that cannot hang the doctor.

    python -m gpuproof.doctor.checks.cloud.aws_probe '{"region": "eu-west-1", "service": "ec2", "code": "L-…"}'

prints one JSON object: `region`, `identity`, `failure`, `region_disabled`, `quota`, `quota_failure`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

CONNECT_SECONDS = 3
READ_SECONDS = 5
LISTING_SECONDS = 12.0
"""SageMaker has some thousand quotas, 100 per page, and AWS documents the codes of few."""
_HOME_REGION = "us-east-1"
_INVALID_HERE = frozenset(
    {"InvalidClientTokenId", "UnrecognizedClientException", "OptInRequired", "AuthFailure"}
)
"""Error codes for valid credentials in a region that the account has not enabled, and for invalid ones anywhere."""
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")

Answer = dict[str, Any]


def main() -> None:
    """Read the question from the command line and print the answer."""
    print(json.dumps(answer(json.loads(sys.argv[1]))))


def answer(question: dict[str, str | None]) -> Answer:
    """Read the identity, then the quota if the identity is known and the region is enabled."""
    import boto3  # 0.2 s, only needed here

    try:
        session = boto3.Session(region_name=question.get("region") or os.environ.get("AWS_REGION"))
        region = session.region_name
    except Exception as error:  # noqa: BLE001 - reported, or raised again if it is a bug
        return {"failure": _failure(error)}
    result: Answer = {"region": region}
    identity = _identity(session, region or _HOME_REGION)
    if (
        "failure" in identity
        and identity["failure"]["code"] in _INVALID_HERE
        and region not in (None, _HOME_REGION)
    ):
        at_home = _identity(session, _HOME_REGION)
        if "identity" in at_home:
            return {**result, **at_home, "region_disabled": True}
    result |= identity
    if "identity" in identity and region and question.get("service"):
        result |= _quota(session, region, question)
    return result


def _identity(session: Any, region: str) -> Answer:
    try:
        arn = str(_client(session, "sts", region).get_caller_identity()["Arn"])
    except Exception as error:  # noqa: BLE001 - reported, or raised again if it is a bug
        return {"failure": _failure(error)}
    # arn:aws:sts::ACCOUNT:assumed-role/NAME/SESSION: the part after the account identifies the caller.
    return {"identity": arn.partition("::")[2].partition(":")[2] or arn.rpartition(":")[2]}


def _quota(session: Any, region: str, question: dict[str, str | None]) -> Answer:
    client = _client(session, "service-quotas", region)
    service, code, name = question["service"], question.get("code"), question.get("name")
    try:
        if code is None:
            return {"quota": _quota_by_name(client, service, name)}
        try:
            found = client.get_service_quota(ServiceCode=service, QuotaCode=code)
        except client.exceptions.NoSuchResourceException:
            # No increase was ever applied, so AWS's default is in force.
            found = client.get_aws_default_service_quota(ServiceCode=service, QuotaCode=code)
        return {"quota": found["Quota"]["Value"]}
    except Exception as error:  # noqa: BLE001 - reported, or raised again if it is a bug
        return {"quota_failure": _failure(error)}


def _quota_by_name(client: Any, service: str | None, name: str | None) -> float | None:
    began = time.monotonic()
    for page in client.get_paginator("list_service_quotas").paginate(
        ServiceCode=service, PaginationConfig={"PageSize": 100}
    ):
        for quota in page["Quotas"]:
            if quota["QuotaName"] == name:
                return float(quota["Value"])
        if time.monotonic() - began > LISTING_SECONDS:
            return None
    return None


def _client(session: Any, service: str, region: str) -> Any:
    from botocore.config import Config  # with boto3

    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": 1, "mode": "standard"},
    )
    return session.client(service, region_name=region, config=config)


def _failure(error: Exception) -> Answer:
    from botocore.exceptions import ClientError  # with boto3

    from gpuproof.catalogue.refresh.aws_errors import classify_error  # the same errors in every service

    failure = classify_error(error)
    if failure is None:
        raise error
    code = (
        error.response.get("Error", {}).get("Code")
        if isinstance(error, ClientError)
        else type(error).__name__
    )
    kind = "credentials" if code in _EXPIRED else failure.kind
    return {"kind": kind, "message": failure.message, "code": code}


if __name__ == "__main__":
    main()
