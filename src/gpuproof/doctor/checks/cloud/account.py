"""What the account allows: identity, region, and the quota for the type that was asked about."""

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
"""For everything that is asked of AWS together, a credential process and a name server that hang included."""
_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Where boto3 looks for credentials without a network.
Source: https://docs.aws.amazon.com/boto3/latest/guide/credentials.html"""
_SIGN_IN = "aws sso login, or new keys; `aws configure list` says which are used."


@dataclass(frozen=True)
class Fault:
    """Why AWS said no.

    Args:
        kind: `credentials`, `permission`, `region`, `throttled`, `connection` or `other`.
        code: AWS's error code, where it answered at all.
        message: in words.
    """

    kind: str
    message: str
    code: str | None = None


@dataclass(frozen=True)
class Wanted:
    """The quota that the type asked about counts against.

    Args:
        needed: in the quota's unit, for one instance.
        request: the command that asks AWS for more.
    """

    instance_type: str
    service: str
    name: str
    unit: str
    needed: int | None
    request: str
    code: str | None = None


@dataclass(frozen=True)
class Reading:
    """What AWS said.

    Args:
        region: the one asked; `None` where none is set.
        identity: the last part of the caller's ARN, such as `role/trainer`; no account number.
        fault: why it does not know the caller.
        region_closed: the caller is known elsewhere, and this region does not know it.
        wanted: the quota that was asked for.
        quota: its value.
        quota_fault: why it could not be read.
        offered: whether EC2 offers the type in the region; `None` where the catalogue does not know.
        elsewhere: regions that offer it, those of the same part of the world first.
    """

    region: str | None = None
    identity: str | None = None
    fault: Fault | None = None
    region_closed: bool = False
    wanted: Wanted | None = None
    quota: float | None = None
    quota_fault: Fault | None = None
    offered: bool | None = None
    elsewhere: tuple[str, ...] = ()


def read(machine: Machine) -> Reading | None:
    """Asks AWS, in a process of its own; `None` without credentials, which is no fault of the machine's."""
    place = read_instance_identity(machine)
    region = place.region
    if region is None and has_credentials(machine):
        metadata = read_instance_metadata(machine)
        region = metadata.region if metadata else None
    offered, elsewhere = _offered(machine, region)
    if not has_credentials(machine):
        return Reading(region, offered=offered, elsewhere=elsewhere) if offered is False else None
    wanted = _wanted(machine, region)
    said = _ask(machine, region, wanted)
    return Reading(
        region=said.get("region") or region,
        identity=said.get("identity"),
        fault=_fault(said.get("fault")),
        region_closed=bool(said.get("region_closed")),
        wanted=wanted,
        quota=said.get("quota"),
        quota_fault=_fault(said.get("quota_fault")),
        offered=offered,
        elsewhere=elsewhere,
    )


def has_credentials(machine: Machine) -> bool:
    """Whether boto3 would find credentials, without asking it or a network: variables, files, an instance's role."""
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
    """D711 no region, D712 region not enabled, D713 credentials refused, D714 quota too small, D715 AWS not reached,
    D716 not offered in the region, D717 quota not to be read."""
    if reading.offered is False:
        yield _not_offered(reading)
    if reading.fault is not None:
        yield _refused(reading, reading.fault)
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
        )
    elif reading.region_closed:
        yield Finding(
            "D712",
            Severity.ERROR,
            f"This account has not enabled {reading.region}: every call there fails, though the credentials are good.",
            (f"identity: {reading.identity}", f"region: {reading.region}"),
            f"aws account enable-region --region-name {reading.region}, or use another region.",
        )
    elif reading.wanted is not None:
        yield from _quota(reading, reading.wanted)


def _quota(reading: Reading, wanted: Wanted) -> Iterator[Finding]:
    if reading.quota is None:
        if reading.quota_fault is not None:
            yield Finding(
                "D717",
                Severity.NOTE,
                f"Whether the quota allows {wanted.instance_type} could not be read: {reading.quota_fault.message}",
                (f"quota: {wanted.name}",),
                f"Ask somebody who may: {_look(wanted, reading.region)}",
            )
        return
    needed = wanted.needed
    if reading.quota > 0 and (needed is None or reading.quota >= needed):
        return
    per = f"{needed} {wanted.unit if wanted.unit == 'vCPU' else ''}".strip() if needed else "more"
    unit = "vCPUs" if wanted.unit == "vCPU" else "instances"
    yield Finding(
        "D714",
        Severity.ERROR,
        f"The quota `{wanted.name}` of this account is {reading.quota:g} {unit} in {reading.region}, and one "
        f"{wanted.instance_type} needs {per}: it cannot be started.",
        (f"quota: {reading.quota:g}", f"identity: {reading.identity}"),
        wanted.request,
    )


def _refused(reading: Reading, fault: Fault) -> Finding:
    if fault.kind == "connection":
        return Finding(
            "D715",
            Severity.WARNING,
            f"AWS could not be reached: {fault.message}",
            (f"region: {reading.region}",) if reading.region else (),
            "Look at the network, a proxy (HTTPS_PROXY), a VPC without a route to AWS, and AWS_ENDPOINT_URL.",
        )
    code = f" ({fault.code})" if fault.code and fault.code not in fault.message else ""
    return Finding(
        "D713",
        Severity.WARNING,
        f"AWS does not take these credentials{code}: {fault.message}",
        (f"error code: {fault.code}",) if fault.code else (),
        f"Sign in again: {_SIGN_IN}" if fault.kind != "permission" else "Ask for sts:GetCallerIdentity.",
    )


def _not_offered(reading: Reading) -> Finding:
    where = ", ".join(reading.elsewhere[:5])
    return Finding(
        "D716",
        Severity.WARNING,
        f"By the catalogue EC2 does not offer this type in {reading.region}.",
        (f"offered in: {where}",) if where else (),
        "Use one of those regions, or `gpuproof catalogue refresh` if you know better.",
    )


def _offered(machine: Machine, region: str | None) -> tuple[bool | None, tuple[str, ...]]:
    """Only for a type that the user named, in a region that the catalogue has."""
    name = machine.instance_type
    known = machine.catalogue.instance(name) if name else None
    if not name or known is None or known.status == "retired" or not known.gpu_count:
        return None, ()
    offered = {one.region for one in machine.catalogue.offerings(name)}
    if region is None or not offered or region not in machine.catalogue.regions():
        return None, ()
    near = sorted(offered, key=lambda one: (one[:2] != region[:2], one[:2] != "us", one))
    return region in offered, tuple(near)


def _wanted(machine: Machine, region: str | None) -> Wanted | None:
    name = machine.instance_type
    if not name or region is None:
        return None
    quota = machine.catalogue.quota(name, region)
    if quota is None:
        return None
    return Wanted(name, quota.service, quota.name, quota.unit, quota.needed, quota.command, quota.code)


def _ask(machine: Machine, region: str | None, wanted: Wanted | None) -> Mapping[str, Any]:
    question: dict[str, str | None] = {"region": region}
    if wanted is not None:
        question |= {"service": wanted.service, "code": wanted.code, "name": wanted.name}
    asking = replace(machine, environment=own_environment(machine.environment))
    # -P: a file of the user's called boto3.py must not stand in for boto3.
    module = f"{__package__}.aws_probe"
    said = asking.run_command(sys.executable, "-P", "-m", module, json.dumps(question), seconds=SECONDS)
    try:
        answer = json.loads(said.output.strip().rpartition("\n")[2])
    except ValueError:
        problem = said.error.strip().rpartition("\n")[2] or "no answer"
        return {"fault": {"kind": "connection", "message": problem, "code": None}}
    return answer if isinstance(answer, dict) else {}


def _fault(said: Any) -> Fault | None:
    return Fault(said["kind"], said["message"], said["code"]) if said else None


def _look(wanted: Wanted, region: str | None) -> str:
    if wanted.code is None:
        return wanted.request
    return (
        f"aws service-quotas get-service-quota --service-code {wanted.service} --quota-code {wanted.code}"
        f" --region {region}"
    )


def summarize(reading: Reading) -> str | None:
    """`assumed-role/trainer/ann in eu-west-1, quota 8 vCPUs`."""
    if reading.identity is None:
        return None
    where = f" in {reading.region}" if reading.region else ""
    unit = "vCPUs" if reading.wanted and reading.wanted.unit == "vCPU" else "instances"
    quota = f", quota {reading.quota:g} {unit}" if reading.quota is not None else ""
    return f"{reading.identity}{where}{quota}"


CHECK = Check("AWS account", Layer.CLOUD, read, evaluate, quick=False, summarize=summarize)
