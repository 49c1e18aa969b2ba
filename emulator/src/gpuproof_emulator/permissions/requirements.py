"""The actions and resources that AWS requires for a request, from `data/requests.csv`.

A resource is an ARN with members of the request in braces: `{A|B}` is the first that the request has, `{A=x}` has a default, `.*` in a
name stands for each element of a list, and `@name` is one of `_RESOURCES`. A row applies if the request has the member in its column
`when`, any that begins with it if it ends with a dot, or if the test of `_CONDITIONS` holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

from gpuproof.util.csv_table import read_rows
from gpuproof_emulator.permissions.calls import Call
from gpuproof_emulator.protocol import ACCOUNT

_TABLE = Path(__file__).parent / "data" / "requests.csv"
_PREFIXES = {
    "monitoring": "cloudwatch",
    "tagging": "tag",
    "email": "ses",
    "api.ecr": "ecr",
    "states": "states",
}
"""The prefix of actions, where it is not the name of the service's endpoint."""

_MEMBER = re.compile(r"\{([^{}]+)\}")
_PUBLIC = ("/aws/service/", "AWS-")
_EC2_KINDS = {
    "i": "instance", "vol": "volume", "sg": "security-group", "vpc": "vpc", "subnet": "subnet", "eni": "network-interface",
    "igw": "internet-gateway", "sir": "spot-instances-request", "ami": "image", "snap": "snapshot", "rtb": "route-table",
}  # fmt: skip
_PASSED_TO = {
    "sagemaker": "sagemaker.amazonaws.com",
    "scheduler": "scheduler.amazonaws.com",
    "ec2": "ec2.amazonaws.com",
    "iam": "ec2.amazonaws.com",  # AddRoleToInstanceProfile
}


class _Row(NamedTuple):
    action: str
    resource: str
    when: str


@dataclass(frozen=True)
class Requirement:
    """One action that a request requires on one resource.

    Args:
        action: such as `sagemaker:CreateModel`.
        resource: an ARN, or `*` for an action that has none.
        values: of condition keys that depend on the request, by their name in lower case.
    """

    action: str
    resource: str = "*"
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Account(NamedTuple):
    """What requirements depend on besides the request.

    Args:
        profile_role: the ARN of the role of an instance profile, by the name or ARN of the profile.
        is_scaled: whether an endpoint of a region has scalable targets.
        role_exists: whether there is a role of that name.
        object_key: the KMS key of an object in S3, by its bucket and key; None if it is encrypted otherwise.
    """

    profile_role: Callable[[str], str | None]
    is_scaled: Callable[[str, str], bool]
    role_exists: Callable[[str], bool]
    object_key: Callable[[str, str], str | None]


def requirements_of(call: Call, account: Account) -> Iterator[Requirement]:
    """The requirements of a call. One that is not in the table requires the action of its name, on any resource."""
    service = _PREFIXES.get(call.service, call.service)
    if (service, call.operation) == ("sts", "GetCallerIdentity"):
        return  # no permission is required: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    rows = _table().get((service, call.operation))
    if rows is None:
        yield Requirement(f"{service}:{call.operation}", values=_values(call, f"{service}:*", "*"))
        return
    for row in rows:
        if not row.when or _is_met(row.when, call, account):
            for resource in _resources(row.resource, call, account):
                yield Requirement(row.action, resource, _values(call, row.action, resource))


@cache
def _table() -> Mapping[tuple[str, str], tuple[_Row, ...]]:
    found: dict[tuple[str, str], tuple[_Row, ...]] = {}
    for row in read_rows(_TABLE):
        key = row["service"], row["operation"]
        found[key] = (*found.get(key, ()), _Row(row["action"], row["resource"], row["when"]))
    return found


def _is_met(when: str, call: Call, account: Account) -> bool:
    if when.startswith("@"):
        return _CONDITIONS[when.removeprefix("@")](call, account)
    if when.endswith("."):
        return any(name.startswith(when) for name in call.members)
    return bool(call.all(when))


def _resources(template: str, call: Call, account: Account) -> list[str]:
    if not template:
        return ["*"]
    if template.startswith("@"):
        return _RESOURCES[template.removeprefix("@")](call, account)
    text = template.replace("{region}", call.region).replace("{account}", ACCOUNT)
    names: list[str] = _MEMBER.findall(text)
    choices = [_members(name, call) for name in names]
    filled: list[str] = []
    for values in product(*choices):
        whole = text
        for name, value in zip(names, values, strict=True):
            whole = whole.replace(f"{{{name}}}", value)
        filled.append(whole)
    return list(dict.fromkeys(filled))


def _members(name: str, call: Call) -> list[str]:
    """The values of a member that may have alternatives or a default; `*` if the request has none."""
    name, _, default = name.partition("=")
    return next((found for part in name.split("|") if (found := call.all(part))), [default or "*"])


def _values(call: Call, action: str, resource: str) -> dict[str, tuple[str, ...]]:
    values: dict[str, tuple[str, ...]] = {
        "aws:requestedregion": (call.region,),
        "aws:securetransport": ("false",),
    }
    kind = resource.rpartition(":")[2].partition("/")[0] if action.startswith("ec2:") else ""
    tags = call.tags(kind)
    values |= {f"aws:requesttag/{key.lower()}": (value,) for key, value in tags.items()}
    if tags:
        values["aws:tagkeys"] = tuple(tags)
    if action == "iam:PassRole":
        values["iam:passedtoservice"] = (_PASSED_TO[call.service],)
    if action == "ec2:CreateTags" and call.operation != "CreateTags":
        values["ec2:createaction"] = (call.operation,)
    if action == "iam:CreateServiceLinkedRole":
        values["iam:awsservicename"] = (resource.split("/")[2],)
    if action == "kms:CreateGrant":
        values["kms:grantisforawsresource"] = ("true",)
    for key, member in _KEYS.items():
        if found := call.all(member):
            values[key] = tuple(found)
    return values


_KEYS = {
    "cloudwatch:namespace": "Namespace",
    "s3:prefix": "prefix",
    "s3:delimiter": "delimiter",
    "servicequotas:service": "ServiceCode",
    "ec2:instancetype": "InstanceType",
}
"""The condition keys that are members of requests."""

_CONDITIONS: dict[str, Callable[[Call, Account], bool]] = {
    "scaled": lambda call, account: account.is_scaled(call.region, call.members.get("EndpointName", "")),
    "sagemaker-scaling-role": lambda call, account: (
        call.members.get("ServiceNamespace") == "sagemaker"
        and not account.role_exists("AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint")
    ),
    "spot-role": lambda call, account: (
        call.members.get("InstanceMarketOptions.MarketType") == "spot"
        and not account.role_exists("AWSServiceRoleForEC2Spot")
    ),
    "encrypted": lambda call, account: bool(_object_key(call, account)),
    "copies-tags": lambda call, _: call.members.get("x-amz-tagging-directive", "COPY") == "COPY",
}


def _profile_role(call: Call, account: Account) -> list[str]:
    given = call.all("IamInstanceProfile.Name") or call.all("IamInstanceProfile.Arn")
    role = account.profile_role(given[0].rpartition("/")[2]) if given else None
    return [role or f"arn:aws:iam::{ACCOUNT}:role/*"]


def _object_key(call: Call, account: Account) -> list[str]:
    key = account.object_key(call.members["Bucket"], call.members["Key"])
    return [key] if key else []


def _ssm(kind: str, name: str, call: Call) -> str:
    """The ARN of a parameter or document, of which AWS's own have no account."""
    owner = "" if name.startswith(_PUBLIC) else ACCOUNT
    return f"arn:aws:ssm:{call.region}:{owner}:{kind}/{name.removeprefix('/')}"


def _ec2_resource(resource: str, call: Call) -> str:
    kind = _EC2_KINDS.get(resource.partition("-")[0], "*")
    return f"arn:aws:ec2:{call.region}:{ACCOUNT}:{kind}/{resource}"


_RESOURCES: dict[str, Callable[[Call, Account], list[str]]] = {
    "profile-role": _profile_role,
    "object-key": _object_key,
    "ssm-parameter": lambda call, _: [_ssm("parameter", call.members.get("Name", "*"), call)],
    "ssm-document": lambda call, _: [
        _ssm("document", call.members.get("DocumentName", "SSM-SessionManagerRunShell"), call)
    ],
    "scaled-endpoint": lambda call, _: [
        f"arn:aws:sagemaker:{call.region}:{ACCOUNT}:endpoint/{call.members.get('ResourceId', '/*').split('/')[1]}"
    ],
    "ec2-resources": lambda call, _: [_ec2_resource(name, call) for name in call.all("ResourceId.*")],
}
