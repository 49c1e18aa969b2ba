"""Minimal IAM policies: for users who start jobs and deploy models, for the jobs' role, and the role's trust policy.

`data/actions.csv` lists each request that GPUproof makes, with the actions and resources that it requires.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.backends.remote.s3_layout import ROOT
from gpuproof.util.csv_table import read_rows

ROLE_NAMES = {"sagemaker": "gpuproof-sagemaker", "ec2": "gpuproof-ec2", "scheduler": "gpuproof-scheduler"}
"""The names of roles that are used only by GPUproof, by backend; on EC2, the instance profile has the same name."""

SERVICES = {
    "sagemaker": "sagemaker.amazonaws.com",
    "ec2": "ec2.amazonaws.com",
    "scheduler": "scheduler.amazonaws.com",
}
"""The service that assumes each role."""

_TABLE = Path(__file__).parent / "data" / "actions.csv"
_GROUPS = {
    "sagemaker": (
        "/aws/sagemaker/TrainingJobs",
        "/aws/sagemaker/ProcessingJobs",
        "/aws/sagemaker/TransformJobs",
        "/aws/sagemaker/NotebookInstances",
        "/aws/sagemaker/Endpoints/*",
    ),
    "ec2": ("/gpuproof/ec2",),
    "scheduler": (),
}
_PARTITIONS = (("cn-", "aws-cn"), ("us-gov-", "aws-us-gov"))
_RUN = "gpuproof:run"
_NOTEBOOK = "gpuproof:notebook"
_TRANSFORM = "gpuproof:transform"
_ENDPOINT = "gpuproof:endpoint"
_SPOT = "spot.amazonaws.com"
_SCALING = "sagemaker.application-autoscaling.amazonaws.com"
_REGIONAL = (
    "instances",
    "launched",
    "all-launched",
    "launch-parts",
    "security-groups",
    "new-security-groups",
    "aws-parameters",
    "session-document",
    "own-sessions",
    "quotas",
    "repositories",
    "schedules",
)
"""Kinds of resources that are where instances on EC2 run; buckets and logs are in the job's own region."""

_CONDITIONS: dict[str, dict[str, Any]] = {
    "tagged-request": {"Null": {f"aws:RequestTag/{_RUN}": "false"}},
    "tagged-resource": {"Null": {f"aws:ResourceTag/{_RUN}": "false"}},
    "tagged-notebook-request": {"Null": {f"aws:RequestTag/{_NOTEBOOK}": "false"}},
    "tagged-notebook": {"Null": {f"aws:ResourceTag/{_NOTEBOOK}": "false"}},
    "tagged-endpoint-request": {"Null": {f"aws:RequestTag/{_ENDPOINT}": "false"}},
    "tagged-endpoint": {"Null": {f"aws:ResourceTag/{_ENDPOINT}": "false"}},
    "passed-to-scheduler": {"StringEquals": {"iam:PassedToService": SERVICES["scheduler"]}},
    "scaling-service": {"StringEquals": {"iam:AWSServiceName": _SCALING}},
    "stop-tag": {
        "Null": {f"aws:ResourceTag/{_RUN}": "false"},
        "ForAllValues:StringEquals": {"aws:TagKeys": ["gpuproof:stop"]},
    },
    # Systems Manager's own key: it is the one of the instance that a session is opened on.
    "tagged-target": {"StringLike": {f"ssm:resourceTag/{_RUN}": ["*"]}},
    "tagged-at-launch": {"StringEquals": {"ec2:CreateAction": "RunInstances"}},
    "tagged-with-group": {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}},
    "own-security-group": {"StringEquals": {"aws:ResourceTag/gpuproof:kind": "security-group"}},
    "tagged-transform-request": {"Null": {f"aws:RequestTag/{_TRANSFORM}": "false"}},
    "tagged-transform": {"Null": {f"aws:ResourceTag/{_TRANSFORM}": "false"}},
    "passed-to-sagemaker": {"StringEquals": {"iam:PassedToService": SERVICES["sagemaker"]}},
    "passed-to-ec2": {"StringEquals": {"iam:PassedToService": SERVICES["ec2"]}},
    "spot-service": {"StringEquals": {"iam:AWSServiceName": _SPOT}},
    "sagemaker-metrics": {"StringLike": {"cloudwatch:namespace": ["/aws/sagemaker/*", "aws/sagemaker/*"]}},
}


class Row(NamedTuple):
    """The permissions for one request, or for the role.

    Attributes:
        backends: where it is needed, `sagemaker`, `ec2` or both.
        who: `user` or `role`.
        service: the boto3 service name; empty for the role.
        operation: the boto3 method; empty for the role.
        actions: the IAM actions.
        resource: the kind of resource.
        condition: the condition of the statement, or when the row applies; empty for always.
    """

    backends: tuple[str, ...]
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
        backend: `sagemaker`, `ec2`, or `scheduler` for the role of schedules, which delete endpoints and terminate instances.
        account: 12 digits.
        region: such as `eu-west-1`.
        other_regions: further regions for instances on EC2; the bucket and the logs are in `region`.
        bucket: the user's bucket; None for the one that GPUproof creates.
        role: the name or ARN of the jobs' role; GPUproof's own if empty.
        kms_key: the ARN of the key that encrypts the jobs' data.
        inputs: `s3://` addresses of other buckets that jobs read.
        outputs: `s3://` addresses of other buckets that jobs write.
        vpc: whether jobs run in subnets of the account.
        topics: ARNs of SNS topics to which jobs (`notify`) and asynchronous endpoints publish.
    """

    backend: str = "sagemaker"
    account: str = "*"
    region: str = "*"
    other_regions: tuple[str, ...] = ()
    bucket: str | None = None
    role: str = ""
    kms_key: str | None = None
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    vpc: bool = False
    topics: tuple[str, ...] = ()

    @property
    def role_name(self) -> str:
        """The name of the jobs' role, or its ARN."""
        return self.role or ROLE_NAMES[self.backend]

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
        # The instances' volumes are encrypted on behalf of the user who starts the job.
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
    """The trust policy of a role: its service, and SageMaker and EventBridge Scheduler only for resources of this account.

    EC2 needs no such condition: an instance can only have a role of its own account.

    Raises:
        ValueError: the policy needs the account, and the scope is any.

    Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/security-confused-deputy-prevention.html and
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/iam-roles-for-amazon-ec2.html
    """
    statement: dict[str, Any] = {
        "Sid": {"ec2": "EC2", "scheduler": "Scheduler"}.get(scope.backend, "SageMaker"),
        "Effect": "Allow",
        "Principal": {"Service": SERVICES[scope.backend]},
        "Action": "sts:AssumeRole",
    }
    if scope.backend != "ec2":
        if scope.account == "*":
            raise ValueError(f"the trust policy of {scope.role_name} needs the account")
        statement["Condition"] = {"StringEquals": {"aws:SourceAccount": scope.account}}
    return _document([statement])


@cache
def read_actions() -> tuple[Row, ...]:
    """All rows of the table."""
    return tuple(
        Row(
            tuple(row["backends"].split()),
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
    if scope.backend not in row.backends:
        return False
    needed = {"own-bucket": scope.bucket is None, "vpc": scope.vpc, "topic": bool(scope.topics)}
    return needed.get(row.condition, True)


def _resources(kind: str, scope: Scope) -> list[str]:
    partition, region, account = scope.partition, scope.region, scope.account
    bucket = f"arn:{partition}:s3:::{scope.bucket or f'gpuproof-{account}-{region}'}"
    groups = [
        f"arn:{partition}:logs:{region}:{account}:log-group:{group}" for group in _GROUPS[scope.backend]
    ]
    if kind in _REGIONAL and region != "*" and scope.other_regions:
        regions = dict.fromkeys((region, *scope.other_regions))
        alone = [replace(scope, region=region, other_regions=()) for region in regions]
        return [resource for each in alone for resource in _resources(kind, each)]
    ec2 = f"arn:{partition}:ec2:{region}:{account}"
    match kind:
        case "jobs":
            jobs = f"arn:{partition}:sagemaker:{region}:{account}"
            return [f"{jobs}:training-job/*", f"{jobs}:processing-job/*"]
        case "transform-jobs":
            return [f"arn:{partition}:sagemaker:{region}:{account}:transform-job/*"]
        case "models":
            return [f"arn:{partition}:sagemaker:{region}:{account}:model/*"]
        case "endpoints":
            return [f"arn:{partition}:sagemaker:{region}:{account}:endpoint/*"]
        case "notebooks":
            return [f"arn:{partition}:sagemaker:{region}:{account}:notebook-instance/*"]
        case "notebook-lifecycles":
            configs = "notebook-instance-lifecycle-config/gpuproof-notebook-*"
            return [f"arn:{partition}:sagemaker:{region}:{account}:{configs}"]
        case "endpoint-parts":
            parts = ("endpoint", "endpoint-config", "model")
            return [f"arn:{partition}:sagemaker:{region}:{account}:{name}/*" for name in parts]
        case "schedules":
            return [f"arn:{partition}:scheduler:{region}:{account}:schedule/default/gpuproof-*"]
        case "schedule-role":
            return [f"arn:{partition}:iam::{account}:role/{ROLE_NAMES['scheduler']}"]
        case "scalable-targets":
            return [f"arn:{partition}:application-autoscaling:{region}:{account}:scalable-target/*"]
        case "scaling-alarms":
            return [f"arn:{partition}:cloudwatch:{region}:{account}:alarm:TargetTracking-endpoint/*"]
        case "scaling-role":
            return [f"arn:{partition}:iam::{account}:role/aws-service-role/{_SCALING}/*"]
        case "role":
            return [_role_arn(scope, "role")]
        case "instance-profile":
            return [_role_arn(scope, "instance-profile")]
        case "spot-role":
            return [f"arn:{partition}:iam::{account}:role/aws-service-role/{_SPOT}/*"]
        case "instances":
            return [f"{ec2}:instance/*"]
        case "launched":
            return [f"{ec2}:instance/*", f"{ec2}:volume/*"]
        case "all-launched":
            names = ("instance", "volume", "network-interface", "spot-instances-request")
            return [f"{ec2}:{name}/*" for name in names]
        case "launch-parts":
            # Images and their snapshots are in accounts of AWS.
            public = [f"arn:{partition}:ec2:{region}::{name}/*" for name in ("image", "snapshot")]
            own = ("subnet", "security-group", "network-interface", "spot-instances-request")
            return [*public, *(f"{ec2}:{name}/*" for name in own)]
        case "security-groups":
            return [f"{ec2}:security-group/*", f"{ec2}:vpc/*"]
        case "new-security-groups":
            return [f"{ec2}:security-group/*"]
        case "aws-parameters":
            return [f"arn:{partition}:ssm:{region}::parameter/aws/service/*"]
        case "session-document":
            # AWS owns the document of port forwarding: its ARN has no account.
            documents = f"arn:{partition}:ssm:{region}"
            return [
                f"{documents}:{account}:document/SSM-SessionManagerRunShell",
                f"{documents}::document/AWS-StartPortForwardingSession",
            ]
        case "own-sessions":
            # The ids of sessions begin with the user's name, or with the name of the role's session.
            sessions = f"arn:{partition}:ssm:{region}:{account}:session"
            return [f"{sessions}/${{aws:username}}-*", f"{sessions}/${{aws:userid}}-*"]
        case "quotas":
            return [f"arn:{partition}:servicequotas:{region}:{account}:{scope.backend}/*"]
        case "bucket":
            return [bucket]
        case "objects":
            return [f"{bucket}/{ROOT}*"]
        case "log-groups":
            return [f"{group}:*" for group in groups]
        case "log-streams":
            return [f"{group}:log-stream:*" for group in groups]
        case "topics":
            return list(scope.topics)
        case "repositories":
            # AWS's images are in accounts of AWS.
            return [f"arn:{partition}:ecr:{region}:*:repository/*"]
        case _:
            return ["*"]


def _role_arn(scope: Scope, kind: str) -> str:
    """The ARN of the jobs' role, or of the instance profile of the same name."""
    name = scope.role_name
    if name.startswith("arn:"):
        return name.replace(":role/", f":{kind}/").replace(":instance-profile/", f":{kind}/")
    return f"arn:{scope.partition}:iam::{scope.account}:{kind}/{name}"


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
