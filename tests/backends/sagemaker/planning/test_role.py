"""Which role a job runs as."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.planning.profile import find_profile
from gpuproof.backends.remote.iam.policy import ROLE_NAMES, SERVICES
from gpuproof.backends.remote.planning.schedule_role import find_schedule_role
from gpuproof.backends.sagemaker.planning.role import find_role
from gpuproof.errors import UsageError
from support.faulty_aws import FaultyAws, query_error
from support.s3_server import MotoServer

pytestmark = pytest.mark.slow

ACCOUNT = "123456789012"


@pytest.fixture
def faulty(moto_server: MotoServer, aws_environment: pytest.MonkeyPatch) -> Iterator[FaultyAws]:
    aws_environment.setenv("AWS_MAX_ATTEMPTS", "1")
    aws_environment.delenv("GPUPROOF_ROLE_ARN", raising=False)
    with FaultyAws(moto_server.url) as server:
        aws_environment.setenv("AWS_ENDPOINT_URL", server.url)
        yield server


@pytest.fixture
def aws(faulty: FaultyAws) -> Iterator[Aws]:
    """An account without roles, before and after."""
    made = Aws(sleep=lambda _: None, region="us-east-1")
    delete_roles(made)
    faulty.asked.clear()
    yield made
    delete_roles(made)


def delete_roles(aws: Aws) -> None:
    """Delete all roles, also those that a test of another file has left with its policies."""
    for role in list(aws.roles()):
        for policy in aws.call("iam", "list_role_policies", RoleName=role.name)["PolicyNames"]:
            aws.call("iam", "delete_role_policy", RoleName=role.name, PolicyName=policy)
        for policy in aws.call("iam", "list_attached_role_policies", RoleName=role.name)["AttachedPolicies"]:
            aws.call("iam", "detach_role_policy", RoleName=role.name, PolicyArn=policy["PolicyArn"])
        for profile in aws.call("iam", "list_instance_profiles_for_role", RoleName=role.name)[
            "InstanceProfiles"
        ]:
            name = profile["InstanceProfileName"]
            aws.call("iam", "remove_role_from_instance_profile", InstanceProfileName=name, RoleName=role.name)
        aws.call("iam", "delete_role", RoleName=role.name)


def make(aws: Aws, name: str, service: str = "sagemaker.amazonaws.com", path: str = "/") -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    return aws.call("iam", "create_role", RoleName=name, Path=path, AssumeRolePolicyDocument=trust)["Role"][
        "Arn"
    ]


def test_the_only_role_that_sagemaker_may_assume_is_used_and_noted(aws: Aws) -> None:
    make(aws, "lambda", "lambda.amazonaws.com")
    arn = make(aws, "jobs", path="/service-role/")
    chosen = find_role(aws)
    assert chosen.arn == arn
    assert chosen.because is not None
    assert "only role" in chosen.because


def test_of_several_roles_none_is_guessed(aws: Aws) -> None:
    arns = [make(aws, name) for name in ("one", "two")]
    with pytest.raises(UsageError, match="SageMaker may assume 2") as caught:
        find_role(aws)
    assert all(arn in caught.value.message for arn in arns)
    assert "--role one" in str(caught.value.remedy)


def test_of_several_roles_gpuproofs_own_is_used_on_every_service(aws: Aws) -> None:
    for backend, service in SERVICES.items():
        for name in (f"a-{backend}", ROLE_NAMES[backend], f"z-{backend}"):
            make(aws, name, service)
    profile = ROLE_NAMES["ec2"]
    for name in ("a-ec2", profile):
        aws.call("iam", "create_instance_profile", InstanceProfileName=name)
        aws.call("iam", "add_role_to_instance_profile", InstanceProfileName=name, RoleName=profile)
    try:
        assert find_role(aws).arn.endswith(":role/gpuproof-sagemaker")
        assert find_profile(aws).name == "gpuproof-ec2"
        assert find_schedule_role(aws, "A schedule").endswith(":role/gpuproof-scheduler")
    finally:
        for name in ("a-ec2", profile):
            aws.call("iam", "remove_role_from_instance_profile", InstanceProfileName=name, RoleName=profile)
            aws.call("iam", "delete_instance_profile", InstanceProfileName=name)


def test_without_a_role_the_remedy_makes_one(aws: Aws) -> None:
    make(aws, "lambda", "lambda.amazonaws.com")
    with pytest.raises(UsageError, match="no role that SageMaker may assume") as caught:
        find_role(aws)
    assert "gpuproof iam policy" in str(caught.value.remedy)


def test_roles_that_may_not_be_listed_have_to_be_named(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("ListRoles", query_error("AccessDenied", "no", 403))
    with pytest.raises(AwsRefused, match="ListRoles: AccessDenied") as caught:
        find_role(aws)
    assert "GPUPROOF_ROLE_ARN" in str(caught.value.remedy)


def test_the_job_goes_before_the_environment(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (make(aws, name) for name in ("one", "two"))
    monkeypatch.setenv("GPUPROOF_ROLE_ARN", two)
    assert find_role(aws, one).arn == one
    assert find_role(aws).arn == two


def test_a_name_becomes_its_arn_with_the_path(aws: Aws) -> None:
    arn = make(aws, "jobs", path="/service-role/")
    assert find_role(aws, "jobs").arn == arn


def test_a_role_that_sagemaker_may_not_assume_is_refused_before_the_job(aws: Aws) -> None:
    make(aws, "lambda", "lambda.amazonaws.com")
    with pytest.raises(UsageError, match=r"its trust policy names lambda\.amazonaws\.com") as caught:
        find_role(aws, "lambda")
    assert "update-assume-role-policy --role-name lambda" in str(caught.value.remedy)


def test_a_role_that_is_not_there_is_wrong_usage(aws: Aws) -> None:
    with pytest.raises(UsageError, match="There is no role nobody"):
        find_role(aws, "nobody")
    with pytest.raises(UsageError, match="There is no role arn:"):
        find_role(aws, f"arn:aws:iam::{ACCOUNT}:role/nobody")


def test_a_role_that_may_not_be_read_is_used_with_a_note(faulty: FaultyAws, aws: Aws) -> None:
    faulty.fault("GetRole", query_error("AccessDenied", "no", 403), times=None)
    arn = f"arn:aws:iam::{ACCOUNT}:role/path/jobs"
    chosen = find_role(aws, arn)
    assert chosen.arn == arn
    assert chosen.note is not None
    assert "iam:GetRole" in chosen.note
    named = find_role(aws, "jobs")
    assert named.arn == f"arn:aws:iam::{ACCOUNT}:role/jobs"
    assert named.note is not None
    assert "full ARN" in named.note


def test_another_accounts_role_is_refused(aws: Aws) -> None:
    with pytest.raises(UsageError, match="belongs to the account 999999999999"):
        find_role(aws, "arn:aws:iam::999999999999:role/jobs")


@pytest.mark.parametrize("given", ["a role", "arn:aws:iam::1:role/x", "arn:aws:iam::123456789012:user/ann"])
def test_what_cannot_be_a_role_is_wrong_usage(faulty: FaultyAws, aws: Aws, given: str) -> None:
    with pytest.raises(UsageError, match="neither the ARN nor the name of a role"):
        find_role(aws, given)
    assert faulty.asked == []


def test_service_linked_roles_are_not_taken(faulty: FaultyAws, aws: Aws) -> None:
    arn = make(aws, "jobs")
    make(aws, "linked", path="/aws-service-role/sagemaker.amazonaws.com/")
    assert find_role(aws).arn == arn
