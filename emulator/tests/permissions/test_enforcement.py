"""`gpuproof emulator --enforce-iam`: users and roles may do what their policies allow, and errors are AWS's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from gpuproof.backends.remote.iam.policy import Scope, trust_policy
from support.emulated_account import IMAGE, EmulatedAccount, emulated_account

pytestmark = pytest.mark.slow

ACCOUNT = "123456789012"
USER = f"arn:aws:iam::{ACCOUNT}:user/ann"
TAGS = [{"Key": "team", "Value": "vision"}]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatedAccount]:
    with emulated_account(tmp_path_factory.mktemp("account"), enforce_iam=True) as account:
        yield account


@pytest.fixture
def account(whole: EmulatedAccount) -> EmulatedAccount:
    """An account with a role of jobs, and the bucket `data` with an object."""
    whole.reset()
    trust = json.dumps(trust_policy(Scope(account=ACCOUNT)))
    whole.client("iam", "us-east-1").create_role(RoleName="jobs", AssumeRolePolicyDocument=trust)
    whole.client("s3", "us-east-1").create_bucket(Bucket="data")
    whole.client("s3", "us-east-1").put_object(Bucket="data", Key="own/x", Body=b"x")
    return whole


class User:
    """An IAM user with one policy."""

    def __init__(self, account: EmulatedAccount, *statements: dict[str, Any]) -> None:
        self._account = account
        self._iam = account.client("iam", "us-east-1")
        self._iam.create_user(UserName="ann")
        self.allow(*statements)
        keys = self._iam.create_access_key(UserName="ann")["AccessKey"]
        self._session = boto3.Session(keys["AccessKeyId"], keys["SecretAccessKey"], region_name="us-east-1")

    def allow(self, *statements: dict[str, Any]) -> None:
        document = json.dumps({"Version": "2012-10-17", "Statement": statements})
        self._iam.put_user_policy(UserName="ann", PolicyName="own", PolicyDocument=document)

    def client(self, service: str) -> Any:
        return self._session.client(service, endpoint_url=self._account.environment["AWS_ENDPOINT_URL"])


def allow(*actions: str, resource: str = "*", **conditions: Any) -> dict[str, Any]:
    more = {"Condition": conditions} if conditions else {}
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource, **more}


def refusal(call: Any, **request: Any) -> tuple[str, str, int]:
    with pytest.raises(ClientError) as caught:
        call(**request)
    error = caught.value.response
    return error["Error"]["Code"], error["Error"]["Message"], error["ResponseMetadata"]["HTTPStatusCode"]


def test_the_emulators_own_key_may_do_everything(account: EmulatedAccount) -> None:
    assert account.client("iam", "us-east-1").list_users()["Users"] == []


def test_each_protocol_has_its_own_error(account: EmulatedAccount) -> None:
    user = User(account, allow("sns:Publish"))
    arn = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/small"
    code, message, status = refusal(user.client("sagemaker").describe_training_job, TrainingJobName="small")
    assert (code, status) == ("AccessDeniedException", 400)
    action = "sagemaker:DescribeTrainingJob"
    because = f"because no identity-based policy allows the {action} action"
    assert message == f"User: {USER} is not authorized to perform: {action} on resource: {arn} {because}"
    code, message, status = refusal(user.client("ec2").terminate_instances, InstanceIds=["i-1"])
    assert (code, status) == ("UnauthorizedOperation", 403)
    assert f"{USER} is not authorized to perform: ec2:TerminateInstances on resource: " in message
    assert "Encoded authorization failure message: " in message
    code, message, status = refusal(user.client("s3").get_object, Bucket="data", Key="own/x")
    assert (code, status) == ("AccessDenied", 403)
    assert 's3:GetObject on resource: "arn:aws:s3:::data/own/x" because' in message
    assert refusal(user.client("iam").list_roles)[0] == "AccessDenied"
    assert refusal(user.client("scheduler").list_schedules)[0::2] == ("AccessDeniedException", 403)
    assert refusal(user.client("s3").head_object, Bucket="data", Key="own/x")[2] == 403


def test_whoever_asks_who_they_are_needs_no_permission(account: EmulatedAccount) -> None:
    user = User(account, {"Effect": "Deny", "Action": "*", "Resource": "*"})
    assert user.client("sts").get_caller_identity()["Arn"] == USER
    assert "with an explicit deny" in refusal(user.client("sagemaker").list_models)[1]


def test_resources_are_evaluated(account: EmulatedAccount) -> None:
    user = User(account, allow("s3:GetObject", resource="arn:aws:s3:::data/own/*"))
    s3 = user.client("s3")
    assert s3.get_object(Bucket="data", Key="own/x")["Body"].read() == b"x"
    assert refusal(s3.get_object, Bucket="data", Key="other")[0] == "AccessDenied"


def test_a_missing_object_is_reported_only_to_who_may_list_the_bucket(account: EmulatedAccount) -> None:
    user = User(account, allow("s3:GetObject"))
    s3 = user.client("s3")
    code, message, _ = refusal(s3.get_object, Bucket="data", Key="none")
    assert code == "AccessDenied"
    assert "s3:ListBucket" in message
    user.allow(allow("s3:GetObject", "s3:ListBucket"))
    assert refusal(s3.get_object, Bucket="data", Key="none")[0] == "NoSuchKey"
    assert refusal(s3.get_object, Bucket="nowhere", Key="none")[0] == "NoSuchBucket"


def test_objects_that_may_not_be_deleted_are_listed(account: EmulatedAccount) -> None:
    user = User(account, allow("s3:DeleteObject", resource="arn:aws:s3:::data/mine/*"))
    result = user.client("s3").delete_objects(Bucket="data", Delete={"Objects": [{"Key": "own/x"}]})
    assert [(error["Key"], error["Code"]) for error in result["Errors"]] == [("own/x", "AccessDenied")]
    assert account.client("s3", "us-east-1").head_object(Bucket="data", Key="own/x")


def test_tags_of_requests_and_of_resources_are_evaluated(account: EmulatedAccount) -> None:
    tagged = {"Null": {"aws:RequestTag/team": "false"}}
    own = {"StringEquals": {"aws:ResourceTag/team": "vision"}}
    role = f"arn:aws:iam::{ACCOUNT}:role/jobs"
    user = User(
        account,
        allow("sagemaker:CreateModel", "sagemaker:AddTags", **tagged),
        allow("sagemaker:DeleteModel", **own),
        allow("iam:PassRole", resource=role, StringEquals={"iam:PassedToService": "sagemaker.amazonaws.com"}),
    )
    model: dict[str, Any] = {"ModelName": "m", "ExecutionRoleArn": role, "PrimaryContainer": {"Image": IMAGE}}
    sagemaker = user.client("sagemaker")
    assert "sagemaker:CreateModel" in refusal(sagemaker.create_model, **model)[1]
    sagemaker.create_model(**model, Tags=TAGS)
    account.client("sagemaker", "us-east-1").create_model(**{**model, "ModelName": "theirs"})
    assert "sagemaker:DeleteModel" in refusal(sagemaker.delete_model, ModelName="theirs")[1]
    sagemaker.delete_model(ModelName="m")


def test_a_role_can_be_passed_only_to_the_service_that_the_condition_names(account: EmulatedAccount) -> None:
    role = f"arn:aws:iam::{ACCOUNT}:role/jobs"
    passes = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    user = User(account, allow("sagemaker:*"), allow("iam:PassRole", **passes))
    code, message, _ = refusal(user.client("sagemaker").create_model, ModelName="m", ExecutionRoleArn=role)
    assert code == "AccessDeniedException"
    assert f"iam:PassRole on resource: {role} because" in message


def test_a_launch_needs_permission_for_each_of_its_parts(account: EmulatedAccount) -> None:
    ec2 = account.client("ec2", "us-east-1")
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    launch: dict[str, Any] = {
        "ImageId": ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"],
        "InstanceType": "g5.xlarge",
        "SubnetId": subnet,
        "MinCount": 1,
        "MaxCount": 1,
        "TagSpecifications": [{"ResourceType": "instance", "Tags": TAGS}],
    }
    kinds = ("image", "instance", "network-interface", "volume", "subnet", "security-group")
    tagging = allow("ec2:CreateTags", StringEquals={"ec2:CreateAction": "RunInstances"})
    parts = [allow("ec2:RunInstances", resource=f"arn:aws:ec2:*:*:{kind}/*") for kind in kinds]
    user = User(account, *parts, tagging)
    user.client("ec2").run_instances(**launch)
    for number, kind in enumerate(kinds):
        user.allow(*parts[:number], *parts[number + 1 :], tagging)
        assert re.search(
            rf"ec2:RunInstances on resource: \S+:{kind}/",
            refusal(user.client("ec2").run_instances, **launch)[1],
        )
    user.allow(*parts)
    assert "ec2:CreateTags on resource" in refusal(user.client("ec2").run_instances, **launch)[1]


def test_policies_of_groups_and_managed_policies_count(account: EmulatedAccount) -> None:
    iam = account.client("iam", "us-east-1")
    user = User(account, allow("sns:Publish"))
    iam.create_group(GroupName="g")
    document = json.dumps({"Version": "2012-10-17", "Statement": [allow("sagemaker:ListModels")]})
    arn = iam.create_policy(PolicyName="list", PolicyDocument=document)["Policy"]["Arn"]
    iam.attach_group_policy(GroupName="g", PolicyArn=arn)
    assert refusal(user.client("sagemaker").list_models)[0] == "AccessDeniedException"
    iam.add_user_to_group(GroupName="g", UserName="ann")
    assert user.client("sagemaker").list_models()["Models"] == []
    iam.detach_group_policy(GroupName="g", PolicyArn=arn)
    iam.put_group_policy(GroupName="g", PolicyName="inline", PolicyDocument=document)
    assert user.client("sagemaker").list_models()["Models"] == []


def test_a_session_of_a_role_has_the_roles_policies(account: EmulatedAccount) -> None:
    iam, sts = account.client("iam", "us-east-1"), account.client("sts", "us-east-1")
    document = json.dumps({"Version": "2012-10-17", "Statement": [allow("sagemaker:ListModels")]})
    iam.put_role_policy(RoleName="jobs", PolicyName="own", PolicyDocument=document)
    keys = sts.assume_role(RoleArn=f"arn:aws:iam::{ACCOUNT}:role/jobs", RoleSessionName="session")[
        "Credentials"
    ]
    sagemaker = boto3.Session(
        keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"], region_name="us-east-1"
    ).client("sagemaker", endpoint_url=account.environment["AWS_ENDPOINT_URL"])
    assert sagemaker.list_models()["Models"] == []
    who = f"User: arn:aws:sts::{ACCOUNT}:assumed-role/jobs/session is not authorized"
    assert refusal(sagemaker.list_endpoints)[1].startswith(who)


def test_what_was_decided_can_be_read(account: EmulatedAccount) -> None:
    user = User(account, allow("sagemaker:ListModels"))
    user.client("sagemaker").list_models()
    refusal(user.client("sagemaker").list_endpoints)
    decisions = list(account.emulator.context.authorizer.decisions)
    assert [(each["action"], each["decision"]) for each in decisions] == [
        ("sagemaker:ListModels", "allowed"),
        ("sagemaker:ListEndpoints", "implicitDeny"),
    ]
    assert {each["identity"] for each in decisions} == {USER}
