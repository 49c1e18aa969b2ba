"""Asks AWS what `account.py` wants to know; runs as a process of its own, so that nothing it meets can hang the doctor.

    python -m gpuproof.doctor.checks.cloud.aws_probe '{"region": "eu-west-1", "service": "ec2", "code": "L-…"}'

prints one JSON object: `region`, `identity`, `fault`, `region_closed`, `quota`, `quota_fault`.
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
"""SageMaker has some thousand quotas, a hundred a page; the codes of most are in no table."""
_HOME_REGION = "us-east-1"
_UNKNOWN_THERE = frozenset(
    {"InvalidClientTokenId", "UnrecognizedClientException", "OptInRequired", "AuthFailure"}
)
"""What a region that an account has not enabled says to good credentials, and every region to bad ones."""
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")

Answer = dict[str, Any]


def main() -> None:
    """Reads the question from the command line and prints the answer."""
    print(json.dumps(answer(json.loads(sys.argv[1]))))


def answer(question: dict[str, str | None]) -> Answer:
    """Identity first; the quota only for a known caller in an enabled region."""
    import boto3  # 0.2 s, and only here

    try:
        session = boto3.Session(region_name=question.get("region") or os.environ.get("AWS_REGION"))
        region = session.region_name
    except Exception as error:  # noqa: BLE001 - told in words, or raised again where it is a bug
        return {"fault": _fault(error)}
    said: Answer = {"region": region}
    identity = _identity(session, region or _HOME_REGION)
    if (
        "fault" in identity
        and identity["fault"]["code"] in _UNKNOWN_THERE
        and region not in (None, _HOME_REGION)
    ):
        at_home = _identity(session, _HOME_REGION)
        if "identity" in at_home:
            return {**said, **at_home, "region_closed": True}
    said |= identity
    if "identity" in identity and region and question.get("service"):
        said |= _quota(session, region, question)
    return said


def _identity(session: Any, region: str) -> Answer:
    try:
        arn = str(_client(session, "sts", region).get_caller_identity()["Arn"])
    except Exception as error:  # noqa: BLE001 - told in words, or raised again where it is a bug
        return {"fault": _fault(error)}
    # arn:aws:sts::ACCOUNT:assumed-role/NAME/SESSION: what comes after the account is enough to know oneself by.
    return {"identity": arn.partition("::")[2].partition(":")[2] or arn.rpartition(":")[2]}


def _quota(session: Any, region: str, question: dict[str, str | None]) -> Answer:
    client = _client(session, "service-quotas", region)
    service, code, name = question["service"], question.get("code"), question.get("name")
    try:
        if code is None:
            return {"quota": _listed(client, service, name)}
        try:
            found = client.get_service_quota(ServiceCode=service, QuotaCode=code)
        except client.exceptions.NoSuchResourceException:
            # Never applied for: AWS's default holds.
            found = client.get_aws_default_service_quota(ServiceCode=service, QuotaCode=code)
        return {"quota": found["Quota"]["Value"]}
    except Exception as error:  # noqa: BLE001 - told in words, or raised again where it is a bug
        return {"quota_fault": _fault(error)}


def _listed(client: Any, service: str | None, name: str | None) -> float | None:
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


def _fault(error: Exception) -> Answer:
    from botocore.exceptions import ClientError  # with boto3

    from gpuproof.catalogue.refresh.aws_errors import (
        classify_error,  # what went wrong is the same in every service
    )

    fault = classify_error(error)
    if fault is None:
        raise error
    code = (
        error.response.get("Error", {}).get("Code")
        if isinstance(error, ClientError)
        else type(error).__name__
    )
    kind = "credentials" if code in _EXPIRED else fault.kind
    return {"kind": kind, "message": fault.message, "code": code}


if __name__ == "__main__":
    main()
