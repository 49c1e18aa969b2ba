"""Minimal IAM policies: for users who start jobs, for the jobs' role, and the role's trust policy.

`data/actions.csv` lists each request that GPUproof makes, with the actions and resources that it requires.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.backends.remote.s3_layout import ROOT
from gpuproof.backends.sagemaker.planning.role import SERVICE
from gpuproof.util.csv_table import read_rows

ROLE_NAME = "gpuproof-sagemaker"
"""The name of a role that is used only by GPUproof."""

_TABLE = Path(__file__).parent / "data" / "actions.csv"
_GROUPS = ("/aws/sagemaker/TrainingJobs", "/aws/sagemaker/ProcessingJobs", "/gpuproof/ec2")
"""The groups of CloudWatch Logs of all jobs; hosts on EC2 use the same role policy."""
_PARTITIONS = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"))
_RUN = "gpuproof:run"
_CONDITIONS: dict[str, dict[str, Any]] = {
    "tagged-request": {"Null": {f"aws:RequestTag/{_RUN}": "false"}},
    "tagged-resource": {"Null": {f"aws:ResourceTag/{_RUN}": "false"}},
    "passed-to-sagemaker": {"StringEquals": {"iam:PassedToService": SERVICE}},
    "sagemaker-metrics": {"StringLike": {"cloudwatch:namespace": ["/aws/sagemaker/*", "aws/sagemaker/*"]}},
}


class Row(NamedTuple):
    """The permissions for one request, or for the role.

    Attributes:
        who: `user` or `role`.
        service: the boto3 service name; empty for the role.
        operation: the boto3 method; empty for the role.
        actions: the IAM actions.
        resource: the kind of resource.
        condition: the condition of the statement, or when the row applies; empty for always.
    """

    who: str
    service: str
    operation: str
    actions: tuple[str, ...]
    resource: str
    condition: str


@dataclass(frozen=True)
class Scope:
    """The scope of the policies; `*` for any.

    Args:
        account: 12 digits.
        region: such as `eu-west-1`.
        bucket: the user's bucket; None for the one that GPUproof creates.
        role: the name or ARN of the jobs' role.
        kms_key: the ARN of the key that encrypts the jobs' data.
        inputs: `s3://` addresses of other buckets that jobs read.
        outputs: `s3://` addresses of other buckets that jobs write.
        vpc: whether jobs run in subnets of the account.
    """

    account: str = "*"
    region: str = "*"
    bucket: str | None = None
    role: str = ROLE_NAME
    kms_key: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    vpc: bool = False

    @property
    def partition(self) -> str:
        """The AWS partition of the region."""
        return next((name for start, name in _PARTITIONS if self.region.startswith(start)), "aws")


def user_policy(scope: Scope) -> dict[str, Any]:
    """The policy of users who start and manage jobs."""
    statements = _statements("user", scope)
    # Local runs read inputs too, and `gpuproof pull` downloads outputs.
    if elsewhere := (*scope.inputs, *scope.outputs):
        statements += _elsewhere("Elsewhere", elsewhere, ("s3:GetObject",), scope)
    if scope.kms_key:
        key = _key_statement(scope.kms_key)
        # SageMaker encrypts the instances' volumes on behalf of the user who starts the job.
        grant = {
            "Sid": "LendKey",
            "Effect": "Allow",
            "Action": ["kms:CreateGrant"],
            "Resource": [scope.kms_key],
            "Condition": {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        }
        statements += [key, grant]
    return _document(statements)


def role_policy(scope: Scope) -> dict[str, Any]:
    """The policy of the jobs' role: files in the bucket, logs, images and metrics."""
    statements = _statements("role", scope)
    if scope.inputs:
        statements += _elsewhere("Inputs", scope.inputs, ("s3:GetObject",), scope)
    if scope.outputs:
        writing = ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload")
        statements += _elsewhere("Outputs", scope.outputs, writing, scope)
    if scope.kms_key:
        statements.append(_key_statement(scope.kms_key))
    return _document(statements)


def trust_policy(scope: Scope) -> dict[str, Any]:
    """The trust policy of the jobs' role: SageMaker, only for this account if it is known.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html
    """
    statement: dict[str, Any] = {
        "Sid": "SageMaker",
        "Effect": "Allow",
        "Principal": {"Service": SERVICE},
        "Action": "sts:AssumeRole",
    }
    if scope.account != "*":
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": scope.account}}
    return _document([statement])


@cache
def read_actions() -> tuple[Row, ...]:
    """All rows of the table."""
    return tuple(
        Row(
            row["who"],
            row["service"],
            row["operation"],
            tuple(row["actions"].split()),
            row["resource"],
            row["condition"],
        )
        for row in read_rows(_TABLE)
    )


def _statements(who: str, scope: Scope) -> list[dict[str, Any]]:
    """One statement for each kind of resource and condition, in the order of the table."""
    grouped: dict[tuple[str, str], dict[str, None]] = {}
    for row in read_actions():
        if row.who == who and row.actions and _applies(row, scope):
            grouped.setdefault((row.resource, row.condition), {}).update(dict.fromkeys(row.actions))
    return [
        {
            "Sid": _title(f"{resource}-{condition}"),
            "Effect": "Allow",
            "Action": list(actions),
            "Resource": _resources(resource, scope),
            **({"Condition": _CONDITIONS[condition]} if condition in _CONDITIONS else {}),
        }
        for (resource, condition), actions in grouped.items()
    ]


def _applies(row: Row, scope: Scope) -> bool:
    if row.condition == "own-bucket":
        return scope.bucket is None
    return row.condition != "vpc" or scope.vpc


def _resources(kind: str, scope: Scope) -> list[str]:
    partition, region, account = scope.partition, scope.region, scope.account
    bucket = f"arn:{partition}:s3:::{scope.bucket or f'gpuproof-{account}-{region}'}"
    groups = [f"arn:{partition}:logs:{region}:{account}:log-group:{group}" for group in _GROUPS]
    match kind:
        case "jobs":
            jobs = f"arn:{partition}:sagemaker:{region}:{account}"
            return [f"{jobs}:training-job/*", f"{jobs}:processing-job/*"]
        case "role":
            named = scope.role.startswith("arn:")
            return [scope.role if named else f"arn:{partition}:iam::{account}:role/{scope.role}"]
        case "bucket":
            return [bucket]
        case "objects":
            return [f"{bucket}/{ROOT}*"]
        case "log-groups":
            return [f"{group}:*" for group in groups]
        case "log-streams":
            return [f"{group}:log-stream:*" for group in groups]
        case "repositories":
            # AWS's images are in accounts of AWS.
            return [f"arn:{partition}:ecr:{region}:*:repository/*"]
        case _:
            return ["*"]


def _elsewhere(
    name: str, addresses: Iterable[str], actions: tuple[str, ...], scope: Scope
) -> list[dict[str, Any]]:
    """Objects below addresses in other buckets, and the listing of these buckets."""
    buckets: dict[str, None] = {}
    objects: dict[str, None] = {}
    for address in addresses:
        bucket, _, prefix = address.removeprefix("s3://").partition("/")
        buckets[f"arn:{scope.partition}:s3:::{bucket}"] = None
        objects[f"arn:{scope.partition}:s3:::{bucket}/{prefix.rstrip('*')}*"] = None
    return [
        {"Sid": f"{name}List", "Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": list(buckets)},
        {"Sid": f"{name}Files", "Effect": "Allow", "Action": list(actions), "Resource": list(objects)},
    ]


def _key_statement(key: str) -> dict[str, Any]:
    actions = ["kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey"]
    return {"Sid": "UseKey", "Effect": "Allow", "Action": actions, "Resource": [key]}


def _document(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


def _title(words: str) -> str:
    """A statement id, which may contain only letters and digits."""
    return "".join(word.capitalize() for word in words.split("-") if word)
