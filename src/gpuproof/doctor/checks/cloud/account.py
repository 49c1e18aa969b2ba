"""The AWS account: identity, region, and the quota for the given instance type."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.instance_identity import read_instance_identity, read_instance_metadata
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.probe_process import own_environment

SECONDS = 20.0
"""Limit for all AWS calls together, including a credential process or name server that hangs."""
_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Where boto3 finds credentials without the network.
Source: https://docs.aws.amazon.com/boto3/latest/guide/credentials.html"""
_SIGN_IN = "aws sso login, or create new keys; `aws configure list` shows which are used."


@dataclass(frozen=True)
class AwsFailure:
    """Why an AWS call failed.

    Args:
        kind: `credentials`, `permission`, `region`, `throttled`, `connection` or `other`.
        code: AWS's error code, if AWS responded.
    """

    kind: str
    message: str
    code: str | None = None


@dataclass(frozen=True)
class QuotaTarget:
    """The quota that limits the given instance type."""

    instance_type: str
    service: str
    name: str
    unit: str
    needed: int | None
    request: str
    code: str | None = None


@dataclass(frozen=True)
class Reading:
    """What AWS reports about the account.

    Args:
        region: the one queried; `None` if none is set.
        identity: the last part of the caller's ARN, such as `role/trainer`, without the account number.
        failure: why the identity could not be read.
        region_disabled: whether the credentials are valid, but the account has not enabled the region.
        quota_failure: why it could not be read.
        offered: whether EC2 offers the type in the region; `None` if the catalogue does not know.
        elsewhere: regions that offer it, those of the same continent first.
    """

    region: str | None = None
    identity: str | None = None
    failure: AwsFailure | None = None
    region_disabled: bool = False
    quota_target: QuotaTarget | None = None
    quota: float | None = None
    quota_failure: AwsFailure | None = None
    offered: bool | None = None
    elsewhere: tuple[str, ...] = ()


def read(machine: Machine) -> Reading | None:
    """Query AWS in a separate process; `None` without credentials, which is not a fault of the machine."""
    instance = read_instance_identity(machine)
    region = instance.region
    if region is None and has_credentials(machine):
        metadata = read_instance_metadata(machine)
        region = metadata.region if metadata else None
    offered, elsewhere = _offered(machine, region)
    if not has_credentials(machine):
        return Reading(region, offered=offered, elsewhere=elsewhere) if offered is False else None
    quota_target = _quota_target(machine, region)
    answer = _run_aws_probe(machine, region, quota_target)
    return Reading(
        region=answer.get("region") or region,
        identity=answer.get("identity"),
        failure=_failure(answer.get("failure")),
        region_disabled=bool(answer.get("region_disabled")),
        quota_target=quota_target,
        quota=answer.get("quota"),
        quota_failure=_failure(answer.get("quota_failure")),
        offered=offered,
        elsewhere=elsewhere,
    )


def has_credentials(machine: Machine) -> bool:
    """Whether boto3 would find credentials in variables, files or an instance role; uses neither boto3 nor AWS."""
    environment = machine.environment
    if any(environment.get(name) for name in _VARIABLES):
        return True
    home = environment.get("HOME", "")
    for variable, name in (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")):
        path = environment.get(variable) or (f"{home}/.aws/{name}" if home else "")
        if path and "[" in (machine.read_text(path) or ""):
            return True
    metadata = read_instance_metadata(machine)
    return metadata is not None and metadata.role


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D711 no region, D712 region not enabled, D713 credentials refused, D714 quota too small, D715 AWS not reachable,
    D716 not offered in the region, D717 quota not readable."""
    if reading.offered is False:
        yield _not_offered(reading)
    if reading.failure is not None:
        yield _call_failed(reading, reading.failure)
        return
    if reading.identity is None:
        return
    if reading.region is None:
        yield Finding(
            "D711",
            Severity.WARNING,
            "No AWS region is set: boto3 and the SageMaker SDK fail with NoRegionError.",
            (f"identity: {reading.identity}",),
            "export AWS_REGION=eu-west-1, or the region of your data",
            private=(reading.identity,),
        )
    elif reading.region_disabled:
        yield Finding(
            "D712",
            Severity.ERROR,
            f"This account has not enabled {reading.region}: all calls there fail, although the credentials are valid.",
            (f"identity: {reading.identity}", f"region: {reading.region}"),
            f"aws account enable-region --region-name {reading.region}, or use another region.",
            private=(reading.identity,),
        )
    elif reading.quota_target is not None:
        yield from _quota(reading, reading.quota_target)


def _quota(reading: Reading, quota_target: QuotaTarget) -> Iterator[Finding]:
    if reading.quota is None:
        if reading.quota_failure is not None:
            yield Finding(
                "D717",
                Severity.NOTE,
                f"The quota for {quota_target.instance_type} could not be read: {reading.quota_failure.message}",
                (f"quota: {quota_target.name}",),
                f"Run with an identity that has the permission: {_quota_command(quota_target, reading.region)}",
            )
        return
    needed = quota_target.needed
    if reading.quota > 0 and (needed is None or reading.quota >= needed):
        return
    per = f"{needed} {quota_target.unit if quota_target.unit == 'vCPU' else ''}".strip() if needed else "more"
    unit = "vCPUs" if quota_target.unit == "vCPU" else "instances"
    yield Finding(
        "D714",
        Severity.ERROR,
        f"The quota `{quota_target.name}` of this account is {reading.quota:g} {unit} in {reading.region}, but one "
        f"{quota_target.instance_type} needs {per}: it cannot be started.",
        (f"quota: {reading.quota:g}", f"identity: {reading.identity}"),
        quota_target.request,
        private=(reading.identity,) if reading.identity else (),
    )


def _call_failed(reading: Reading, failure: AwsFailure) -> Finding:
    if failure.kind == "connection":
        return Finding(
            "D715",
            Severity.WARNING,
            f"AWS cannot be reached: {failure.message}",
            (f"region: {reading.region}",) if reading.region else (),
            "Check the network, the proxy (HTTPS_PROXY), the VPC's route to AWS, and AWS_ENDPOINT_URL.",
        )
    code = f" ({failure.code})" if failure.code and failure.code not in failure.message else ""
    return Finding(
        "D713",
        Severity.WARNING,
        f"AWS rejected the credentials{code}: {failure.message}",
        (f"error code: {failure.code}",) if failure.code else (),
        f"Sign in again: {_SIGN_IN}"
        if failure.kind != "permission"
        else "Ask for the permission sts:GetCallerIdentity.",
    )


def _not_offered(reading: Reading) -> Finding:
    where = ", ".join(reading.elsewhere[:5])
    return Finding(
        "D716",
        Severity.WARNING,
        f"According to the catalogue, EC2 does not offer this instance type in {reading.region}.",
        (f"offered in: {where}",) if where else (),
        "Use one of those regions, or update the catalogue: gpuproof catalogue refresh",
    )


def _offered(machine: Machine, region: str | None) -> tuple[bool | None, tuple[str, ...]]:
    """Whether the given type is offered; only for a type that the user gave, in a region that the catalogue has."""
    name = machine.instance_type
    known = machine.catalogue.instance(name) if name else None
    if not name or known is None or known.status == "retired" or not known.gpu_count:
        return None, ()
    offered = {offering.region for offering in machine.catalogue.offerings(name)}
    if region is None or not offered or region not in machine.catalogue.regions():
        return None, ()
    near = sorted(
        offered, key=lambda candidate: (candidate[:2] != region[:2], candidate[:2] != "us", candidate)
    )
    return region in offered, tuple(near)


def _quota_target(machine: Machine, region: str | None) -> QuotaTarget | None:
    name = machine.instance_type
    if not name or region is None:
        return None
    quota = machine.catalogue.quota(name, region)
    if quota is None:
        return None
    return QuotaTarget(name, quota.service, quota.name, quota.unit, quota.needed, quota.command, quota.code)


def _run_aws_probe(
    machine: Machine, region: str | None, quota_target: QuotaTarget | None
) -> Mapping[str, Any]:
    question: dict[str, str | None] = {"region": region}
    if quota_target is not None:
        question |= {"service": quota_target.service, "code": quota_target.code, "name": quota_target.name}
    own_machine = replace(machine, environment=own_environment(machine.environment))
    # -P: a file called boto3.py in the working directory must not replace boto3.
    module = f"{__package__}.aws_probe"
    result = own_machine.run_command(
        sys.executable, "-P", "-m", module, json.dumps(question), seconds=SECONDS
    )
    try:
        answer = json.loads(result.output.strip().rpartition("\n")[2])
    except ValueError:
        problem = result.error.strip().rpartition("\n")[2] or "no answer"
        return {"failure": {"kind": "connection", "message": problem, "code": None}}
    return answer if isinstance(answer, dict) else {}


def _failure(record: Any) -> AwsFailure | None:
    return AwsFailure(record["kind"], record["message"], record["code"]) if record else None


def _quota_command(quota_target: QuotaTarget, region: str | None) -> str:
    if quota_target.code is None:
        return quota_target.request
    return (
        f"aws service-quotas get-service-quota --service-code {quota_target.service} --quota-code {quota_target.code}"
        f" --region {region}"
    )


def summarize(reading: Reading) -> str | None:
    """`assumed-role/trainer/ann in eu-west-1, quota 8 vCPUs`."""
    if reading.identity is None:
        return None
    where = f" in {reading.region}" if reading.region else ""
    unit = "vCPUs" if reading.quota_target and reading.quota_target.unit == "vCPU" else "instances"
    quota = f", quota {reading.quota:g} {unit}" if reading.quota is not None else ""
    return f"{reading.identity}{where}{quota}"


CHECK = Check("AWS account", Layer.CLOUD, read, evaluate, quick=False, summarize=summarize)
