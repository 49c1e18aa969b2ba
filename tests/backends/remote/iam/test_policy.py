"""The minimal IAM policy, compared with the operations that GPUproof calls."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import gpuproof
from gpuproof.backends.remote.iam.policy import Scope, read_actions, role_policy, trust_policy, user_policy
from gpuproof.backends.remote.s3_layout import RunLayout

PACKAGES = ("aws", "remote", "sagemaker", "ec2")
OTHERS = ("session.py", "audit.py", "inventory.py", "cloudwatch_metrics.py", "cost_explorer.py")
"""Modules of these packages that name operations without requesting them, or only for `gpuproof cleanup` and `cost`."""

SERVICES = (
    "sts",
    "s3",
    "sagemaker",
    "sagemaker-runtime",
    "logs",
    "cloudwatch",
    "iam",
    "service-quotas",
    "resourcegroupstaggingapi",
    "ecr",
    "ec2",
    "ssm",
    "sagemaker-runtime",
    "scheduler",
    "application-autoscaling",
)
SESSION_AGENT = "UpdateInstanceInformation$|(Create|Open)(Control|Data)Channel$"
"""What the agent of Systems Manager does on an instance; AWS's own policies allow it on everything."""

SCOPE = Scope(account="123456789012", region="eu-west-1")
EC2 = Scope(backend="ec2", account="123456789012", region="eu-west-1")
BOTH = pytest.mark.parametrize("scope", [SCOPE, EC2], ids=["sagemaker", "ec2"])


@cache
def operations() -> dict[str, set[str]]:
    """The services that have an operation of each name, as boto3 writes it."""
    import botocore.session
    from botocore import xform_name

    session = botocore.session.get_session()
    found: dict[str, set[str]] = {}
    for service in SERVICES:
        for name in session.get_service_model(service).operation_names:
            found.setdefault(xform_name(name), set()).add(service)
    return found


def called_operations() -> set[str]:
    """Operations whose names the code of the backends holds, or composes with a job's kind."""
    backends = Path(gpuproof.__file__).parent / "backends"
    paths = (
        path for package in PACKAGES for path in (backends / package).rglob("*.py") if path.name not in OTHERS
    )
    trees = (ast.parse(path.read_text()) for path in paths)
    texts = {text for tree in trees for node in ast.walk(tree) for text in spelled(node)}
    # The AWS CLI writes them with hyphens.
    return {name for text in texts if (name := text.replace("-", "_")) in operations()}


def spelled(node: ast.AST) -> Iterator[str]:
    """The texts that a literal can be; in an f-string, each of the kinds of jobs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        for kind in ("training", "processing"):
            parts = (str(part.value) if isinstance(part, ast.Constant) else kind for part in node.values)
            yield "".join(parts)


def statements(policy: dict[str, Any]) -> Iterator[dict[str, Any]]:
    assert policy["Version"] == "2012-10-17"
    yield from policy["Statement"]


def allowed(policy: dict[str, Any], action: str, resource: str) -> list[dict[str, Any]]:
    return [
        statement
        for statement in statements(policy)
        if action in statement["Action"]
        and any(fnmatchcase(resource, pattern) for pattern in statement["Resource"])
    ]


@pytest.mark.slow
def test_the_table_names_exactly_the_operations_that_the_code_calls() -> None:
    listed = {row.operation for row in read_actions() if row.who == "user"}
    # `top` reads the metrics of a job with a method of `audit`, whose operations are in a table of its own.
    assert listed == {*called_operations(), "get_metric_data"}


def test_each_operation_is_listed_under_its_service() -> None:
    for row in read_actions():
        if row.who == "user":
            assert row.service in operations()[row.operation], row


def test_the_operations_that_moving_files_takes_are_covered() -> None:
    """boto3's transfers ask these by themselves: https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html"""
    policy = user_policy(SCOPE)
    key = f"arn:aws:s3:::gpuproof-123456789012-eu-west-1/{RunLayout('job').source}"
    for action in ("s3:PutObject", "s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObjectTagging"):
        assert allowed(policy, action, key), action


@pytest.mark.parametrize("make", [user_policy, role_policy])
@BOTH
def test_nothing_is_allowed_on_everything_that_could_be_narrowed(scope: Scope, make: Any) -> None:
    for statement in statements(make(scope)):
        assert statement["Effect"] == "Allow"
        assert not any("*" in action for action in statement["Action"])
        if statement["Resource"] == ["*"]:
            # Actions for which AWS knows no resource, or that only read.
            assert all(
                re.search(rf":(List|Get|Describe|Search|PutMetricData|{SESSION_AGENT})", name)
                for name in statement["Action"]
            )


@BOTH
def test_sids_are_letters_and_stand_once(scope: Scope) -> None:
    for policy in (user_policy(scope), role_policy(scope), trust_policy(scope)):
        sids = [statement["Sid"] for statement in statements(policy)]
        assert len(set(sids)) == len(sids)
        assert all(sid.isalnum() for sid in sids)


def test_only_the_jobs_role_can_be_passed_and_to_sagemaker_alone() -> None:
    arn = "arn:aws:iam::123456789012:role/path/jobs"
    policy = user_policy(Scope(account="123456789012", role=arn))
    one, scheduler = [statement for statement in statements(policy) if "iam:PassRole" in statement["Action"]]
    assert one["Resource"] == [arn]
    assert one["Condition"] == {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    assert scheduler["Resource"] == ["arn:aws:iam::123456789012:role/gpuproof-scheduler"]
    assert scheduler["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}


def test_the_schedules_role_deletes_endpoints_and_instances_of_gpuproof_and_nothing_else() -> None:
    scope = Scope(backend="scheduler", account="123456789012", region="eu-west-1")
    found = {
        action: statement for statement in statements(role_policy(scope)) for action in statement["Action"]
    }
    # AWS deletes a scaled endpoint only for who may deregister its targets.
    scaling = {
        f"application-autoscaling:{name}" for name in ("DeregisterScalableTarget", "DescribeScalableTargets")
    }
    assert set(found) == {"sagemaker:DeleteEndpoint", "ec2:TerminateInstances", *scaling}
    runs = {"Null": {"aws:ResourceTag/gpuproof:run": "false"}}
    assert found["ec2:TerminateInstances"]["Condition"] == runs
    condition = {"Null": {"aws:ResourceTag/gpuproof:endpoint": "false"}}
    assert found["sagemaker:DeleteEndpoint"]["Condition"] == condition
    (trust,) = statements(trust_policy(scope))
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}


def test_jobs_can_be_made_and_stopped_only_with_gpuproofs_tag() -> None:
    job = "arn:aws:sagemaker:eu-west-1:123456789012:training-job/job"
    (made,) = allowed(user_policy(SCOPE), "sagemaker:CreateTrainingJob", job)
    assert made["Condition"] == {"Null": {"aws:RequestTag/gpuproof:run": "false"}}
    (stopped,) = allowed(user_policy(SCOPE), "sagemaker:StopTrainingJob", job)
    assert stopped["Condition"] == {"Null": {"aws:ResourceTag/gpuproof:run": "false"}}


def test_a_look_at_a_job_needs_no_tag_so_that_a_missing_one_is_seen_to_be_missing() -> None:
    job = "arn:aws:sagemaker:eu-west-1:123456789012:training-job/job"
    (look,) = allowed(user_policy(SCOPE), "sagemaker:DescribeTrainingJob", job)
    assert "Condition" not in look


def test_buckets_are_made_only_where_none_is_named() -> None:
    assert any("s3:CreateBucket" in statement["Action"] for statement in statements(user_policy(SCOPE)))
    own = user_policy(Scope(bucket="data"))
    assert not any("s3:CreateBucket" in statement["Action"] for statement in statements(own))
    assert allowed(own, "s3:ListBucket", "arn:aws:s3:::data")
    assert not allowed(own, "s3:GetObject", "arn:aws:s3:::data/elsewhere")


def test_the_role_reaches_gpuproofs_prefix_and_no_other_key() -> None:
    policy = role_policy(Scope(bucket="data"))
    assert allowed(policy, "s3:PutObject", f"arn:aws:s3:::data/{RunLayout('job').output}model.tar.gz")
    assert not allowed(policy, "s3:PutObject", "arn:aws:s3:::data/other")
    assert not allowed(policy, "s3:GetObject", "arn:aws:s3:::other/gpuproof/x")


@pytest.mark.parametrize(
    "group",
    [
        "/aws/sagemaker/TrainingJobs",
        "/aws/sagemaker/ProcessingJobs",
        "/aws/sagemaker/TransformJobs",
        "/gpuproof/ec2",
    ],
)
def test_the_role_writes_its_logs_and_the_user_reads_them(group: str) -> None:
    group_arn = f"arn:aws:logs:eu-west-1:123456789012:log-group:{group}"
    scope = EC2 if group.endswith("/ec2") else SCOPE
    assert allowed(role_policy(scope), "logs:PutLogEvents", f"{group_arn}:log-stream:job/algo-1")
    assert allowed(role_policy(scope), "logs:CreateLogGroup", f"{group_arn}:*")
    assert allowed(user_policy(scope), "logs:GetLogEvents", f"{group_arn}:log-stream:job/algo-1")


def test_inputs_and_outputs_elsewhere_are_added_by_their_prefix() -> None:
    scope = Scope(bucket="data", inputs=("s3://in/rows/",), outputs=("s3://out",))
    policy = role_policy(scope)
    assert allowed(policy, "s3:GetObject", "arn:aws:s3:::in/rows/1")
    assert not allowed(policy, "s3:GetObject", "arn:aws:s3:::in/else")
    assert not allowed(policy, "s3:PutObject", "arn:aws:s3:::in/rows/1")
    assert allowed(policy, "s3:PutObject", "arn:aws:s3:::out/model")
    assert allowed(user_policy(scope), "s3:GetObject", "arn:aws:s3:::out/model")


def test_a_key_can_be_used_by_both_and_lent_to_disks_by_the_user_alone() -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/1"
    scope = Scope(kms_key=key)
    for policy in (user_policy(scope), role_policy(scope)):
        assert allowed(policy, "kms:GenerateDataKey", key)
    (lent,) = allowed(user_policy(scope), "kms:CreateGrant", key)
    assert lent["Condition"] == {"Bool": {"kms:GrantIsForAWSResource": "true"}}
    assert not allowed(role_policy(scope), "kms:CreateGrant", key)


def test_network_interfaces_are_the_roles_only_in_a_vpc() -> None:
    def interfaces(scope: Scope) -> bool:
        return any(
            "ec2:CreateNetworkInterface" in statement["Action"]
            for statement in statements(role_policy(scope))
        )

    assert interfaces(Scope(vpc=True))
    assert not interfaces(SCOPE)


def test_instances_are_launched_with_gpuproofs_tag_and_only_those_are_ended() -> None:
    policy = user_policy(EC2)
    instance = "arn:aws:ec2:eu-west-1:123456789012:instance/i-1"
    (launch,) = allowed(policy, "ec2:RunInstances", instance)
    assert launch["Condition"] == {"Null": {"aws:RequestTag/gpuproof:run": "false"}}
    (end,) = allowed(policy, "ec2:TerminateInstances", instance)
    assert end["Condition"] == {"Null": {"aws:ResourceTag/gpuproof:run": "false"}}
    for part in ("subnet/subnet-1", "security-group/sg-1", "network-interface/eni-1"):
        assert allowed(policy, "ec2:RunInstances", f"arn:aws:ec2:eu-west-1:123456789012:{part}")
    assert allowed(policy, "ec2:RunInstances", "arn:aws:ec2:eu-west-1::image/ami-1")


def test_instances_are_tagged_only_at_their_launch_or_to_stop_them() -> None:
    tagging = allowed(user_policy(EC2), "ec2:CreateTags", "arn:aws:ec2:eu-west-1:123456789012:instance/i-1")
    at_launch, stop = (item["Condition"] for item in tagging)
    assert at_launch == {"StringEquals": {"ec2:CreateAction": "RunInstances"}}
    assert stop == {
        "Null": {"aws:ResourceTag/gpuproof:run": "false"},
        "ForAllValues:StringEquals": {"aws:TagKeys": ["gpuproof:stop"]},
    }


def test_each_role_can_be_passed_to_its_service_alone() -> None:
    one, scheduler = [
        statement for statement in statements(user_policy(EC2)) if "iam:PassRole" in statement["Action"]
    ]
    assert scheduler["Resource"] == ["arn:aws:iam::123456789012:role/gpuproof-scheduler"]
    assert scheduler["Condition"] == {"StringEquals": {"iam:PassedToService": "scheduler.amazonaws.com"}}
    assert one["Resource"] == ["arn:aws:iam::123456789012:role/gpuproof-ec2"]
    assert one["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    (trust,) = statements(trust_policy(EC2))
    assert trust["Principal"] == {"Service": "ec2.amazonaws.com"}
    assert "Condition" not in trust


def test_sessions_are_opened_only_on_instances_of_runs_and_only_ones_own_are_ended() -> None:
    policy = user_policy(EC2)
    (opened,) = allowed(policy, "ssm:StartSession", "arn:aws:ec2:eu-west-1:123456789012:instance/i-1")
    assert opened["Condition"] == {"StringLike": {"ssm:resourceTag/gpuproof:run": ["*"]}}
    documents = "arn:aws:ssm:eu-west-1:123456789012:document"
    assert allowed(policy, "ssm:StartSession", f"{documents}/SSM-SessionManagerRunShell")
    assert not allowed(policy, "ssm:StartSession", f"{documents}/AWS-StartPortForwardingSession")
    (ended,) = [
        statement for statement in statements(policy) if "ssm:TerminateSession" in statement["Action"]
    ]
    assert all("/${aws:user" in item for item in ended["Resource"])


def test_the_role_of_instances_has_files_logs_sessions_and_images_and_nothing_else() -> None:
    actions = {action for statement in statements(role_policy(EC2)) for action in statement["Action"]}
    assert {action.partition(":")[0] for action in actions} == {
        "s3",
        "logs",
        "ssm",
        "ssmmessages",
        "ecr",
    }
    assert not any("Delete" in action for action in actions)


def test_each_backends_policy_has_only_its_own_service() -> None:
    def services(scope: Scope) -> set[str]:
        return {
            name.partition(":")[0]
            for statement in statements(user_policy(scope))
            for name in statement["Action"]
        }

    assert "ec2" not in services(SCOPE)
    assert not services(EC2) & {"sagemaker", "tag"}
    assert {"ec2", "ssm", "servicequotas", "s3", "logs", "iam"} <= services(EC2)


def test_an_instance_profile_is_named_as_its_role() -> None:
    arn = "arn:aws:iam::123456789012:instance-profile/path/jobs"
    policy = user_policy(Scope(backend="ec2", account="123456789012", role=arn))
    assert allowed(policy, "iam:GetInstanceProfile", arn)
    assert allowed(policy, "iam:PassRole", "arn:aws:iam::123456789012:role/path/jobs")


def test_only_sagemaker_may_assume_the_role_and_for_this_account_alone() -> None:
    (one,) = statements(trust_policy(SCOPE))
    assert one["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert one["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    with pytest.raises(ValueError, match="needs the account"):
        trust_policy(Scope())


@pytest.mark.parametrize(
    ("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov"), ("*", "aws")]
)
def test_every_part_of_aws_has_its_own_names(region: str, partition: str) -> None:
    scopes = (Scope(region=region), Scope(backend="ec2", region=region))
    for policy in (make(scope) for make in (user_policy, role_policy) for scope in scopes):
        resources = [
            name for statement in statements(policy) for name in statement["Resource"] if name != "*"
        ]
        assert all(name.startswith(f"arn:{partition}:") for name in resources)


def test_every_action_has_a_source() -> None:
    import csv

    table = Path(gpuproof.__file__).parent / "backends" / "remote" / "iam" / "data" / "actions.csv"
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            assert row["source"].startswith("https://docs.aws.amazon.com/")
            assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["as_of"])


def test_users_may_list_roles() -> None:
    actions = {action for statement in statements(user_policy(SCOPE)) for action in statement["Action"]}
    assert "iam:ListRoles" in actions


def test_instances_may_be_in_further_regions_and_nothing_else() -> None:
    scope = replace(EC2, other_regions=("us-west-2", "eu-west-1"))
    alone, together = user_policy(EC2)["Statement"], user_policy(scope)["Statement"]
    assert [item["Sid"] for item in together] == [item["Sid"] for item in alone]
    for before, after in zip(alone, together, strict=True):
        added = set(after["Resource"]) - set(before["Resource"])
        assert set(before["Resource"]) <= set(after["Resource"])
        services = ("ec2", "ssm", "servicequotas", "scheduler")
        assert all(item.split(":")[2] in services and item.split(":")[3] == "us-west-2" for item in added)
    launches = [item for item in together if "ec2:RunInstances" in item["Action"]]
    assert all(any(":us-west-2:" in name for name in launch["Resource"]) for launch in launches)
    (images,) = [item for item in role_policy(scope)["Statement"] if "ecr:BatchGetImage" in item["Action"]]
    assert [name.split(":")[3] for name in images["Resource"]] == ["eu-west-1", "us-west-2"]


def test_a_notebook_instance_may_stop_itself_and_only_instances_that_gpuproof_created() -> None:
    arn = "arn:aws:sagemaker:eu-west-1:123456789012:notebook-instance/nb"
    (one,) = allowed(role_policy(SCOPE), "sagemaker:StopNotebookInstance", arn)
    assert one["Condition"] == {"Null": {"aws:ResourceTag/gpuproof:notebook": "false"}}
    for action in ("Stop", "Delete", "Start"):
        (one,) = allowed(user_policy(SCOPE), f"sagemaker:{action}NotebookInstance", arn)
        assert one["Condition"] == {"Null": {"aws:ResourceTag/gpuproof:notebook": "false"}}


def test_only_gpuproofs_own_lifecycle_configurations_can_be_deleted() -> None:
    root = "arn:aws:sagemaker:eu-west-1:123456789012:notebook-instance-lifecycle-config"
    action = "sagemaker:DeleteNotebookInstanceLifecycleConfig"
    assert allowed(user_policy(SCOPE), action, f"{root}/gpuproof-notebook-0123456789abcdef")
    assert not allowed(user_policy(SCOPE), action, f"{root}/theirs")


@BOTH
def test_users_may_read_the_quotas_that_their_plans_are_compared_with(scope: Scope) -> None:
    (statement,) = (
        statement
        for statement in statements(user_policy(scope))
        if "servicequotas:GetServiceQuota" in statement["Action"]
    )
    assert statement["Resource"] == [f"arn:aws:servicequotas:eu-west-1:123456789012:{scope.backend}/*"]
