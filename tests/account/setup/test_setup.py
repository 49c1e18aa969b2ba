"""`gpuproof setup` in an emulated account, over boto3: it creates what is missing, once, and removes exactly that."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuproof.account.setup.permissions import read_actions, setup_policy
from gpuproof.account.setup.templates import cloudformation, terraform
from gpuproof.linter.source.span import Unit
from gpuproof.linter.templates import terraform as hcl
from gpuproof.linter.templates import terraform_syntax
from support.cli_sandbox import GPUPROOF, CliSandbox, until
from support.emulated_account import EmulatedAccount

pytestmark = pytest.mark.slow

BUCKET = "gpuproof-123456789012-us-east-1"
ROLES = {"gpuproof-sagemaker", "gpuproof-ec2", "gpuproof-scheduler"}
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})


@pytest.fixture(autouse=True)
def _own_vpc(account: EmulatedAccount) -> Iterator[None]:
    """The account's roles and buckets are new for each test; so is the region's network."""
    yield
    account.reset()


def has(account: EmulatedAccount) -> set[str]:
    """What the account has of a setup."""
    iam, ec2, s3 = (account.client(name, "us-east-1") for name in ("iam", "ec2", "s3"))
    found = {f"role {role['RoleName']}" for role in iam.list_roles()["Roles"]}
    found |= {
        f"profile {profile['InstanceProfileName']} {[role['RoleName'] for role in profile['Roles']]}"
        for profile in iam.list_instance_profiles()["InstanceProfiles"]
    }
    found |= {f"bucket {bucket['Name']}" for bucket in s3.list_buckets()["Buckets"]}
    groups = ec2.describe_security_groups()["SecurityGroups"]
    return found | {f"group {group['GroupName']}" for group in groups if group["GroupName"] != "default"}


EVERYTHING = {
    *(f"role {name}" for name in ROLES),
    "profile gpuproof-ec2 ['gpuproof-ec2']",
    f"bucket {BUCKET}",
    "group gpuproof",
}


def states(document: dict[str, Any]) -> dict[str, str]:
    return {f"{part['kind']} {part['name'].split()[0]}": part["state"] for part in document["parts"]}


def test_an_empty_account_is_prepared_once_and_emptied_again(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    done = cli.gpuproof("setup", "--yes")
    assert done.returncode == 0, done.stderr
    assert has(account) == EVERYTHING
    changes = len(account.changes())
    again = cli.gpuproof("setup", "--yes", "--format", "json")
    document = json.loads(again.stdout)
    assert (document["complete"], document["created"]) == (True, False)
    assert set(states(document).values()) == {"exists"}
    assert len(account.changes()) == changes
    removed = cli.gpuproof("setup", "--remove", "--yes")
    assert removed.returncode == 0, removed.stderr
    assert has(account) == set()
    assert "nothing" in cli.gpuproof("setup", "--remove", "--yes").stdout


def test_the_roles_have_the_policies_that_gpuproof_iam_prints(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    assert cli.gpuproof("setup", "--yes").returncode == 0
    iam = account.client("iam", "us-east-1")
    for backend in ("sagemaker", "ec2", "scheduler"):
        words = ("iam", "policy", "--on", backend, "--account", "123456789012")
        printed = json.loads(cli.gpuproof(*words).stdout)
        name = f"gpuproof-{backend}"
        attached = iam.get_role_policy(RoleName=name, PolicyName="gpuproof")["PolicyDocument"]
        assert attached == printed["role"]
        assert iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"] == printed["trust"]


def test_a_dry_run_shows_everything_and_changes_nothing(cli: CliSandbox, account: EmulatedAccount) -> None:
    done = cli.gpuproof("setup", "--dry-run", "--format", "json")
    document = json.loads(done.stdout)
    assert set(states(document).values()) <= {"missing", "exists"}
    roles = [part for part in document["parts"] if part["kind"] == "role"]
    assert {role["name"] for role in roles} == ROLES
    assert all(role["policy"]["Statement"] and role["trust_policy"]["Statement"] for role in roles)
    assert {"iam:CreateRole", "s3:CreateBucket", "ec2:CreateSecurityGroup"} <= set(document["permissions"])
    assert account.changes() == []
    assert has(account) == set()


def test_without_a_terminal_and_without_yes_nothing_is_created(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    done = cli.gpuproof("setup")
    assert (done.returncode, account.changes()) == (2, [])
    assert "gpuproof setup --yes" in done.stderr
    assert "role gpuproof-sagemaker" in done.stdout


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_it_asks(cli: CliSandbox, account: EmulatedAccount, answer: str) -> None:
    master, terminal = pty.openpty()
    try:
        os.write(master, f"{answer}\n".encode())
        done = cli.gpuproof("setup", stdin=terminal)
    finally:
        os.close(master)
        os.close(terminal)
    assert "Create it? [y/N]" in done.stdout
    assert (done.returncode == 0) == (has(account) == EVERYTHING) == (answer == "y")


def test_what_the_user_has_made_is_neither_changed_nor_removed(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    iam, s3 = account.client("iam", "us-east-1"), account.client("s3", "us-east-1")
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "ec2.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    own = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}],
    }
    iam.create_role(RoleName="gpuproof-ec2", AssumeRolePolicyDocument=trust)
    iam.put_role_policy(RoleName="gpuproof-ec2", PolicyName="gpuproof", PolicyDocument=json.dumps(own))
    s3.create_bucket(Bucket=BUCKET)
    s3.put_bucket_tagging(Bucket=BUCKET, Tagging={"TagSet": [{"Key": "gpuproof:kind", "Value": "bucket"}]})
    assert cli.gpuproof("setup", "--yes").returncode == 0
    assert has(account) == EVERYTHING
    kept = iam.get_role_policy(RoleName="gpuproof-ec2", PolicyName="gpuproof")
    assert kept["PolicyDocument"] == own
    assert cli.gpuproof("setup", "--remove", "--yes").returncode == 0
    assert has(account) == {"role gpuproof-ec2", f"bucket {BUCKET}"}


def test_a_role_that_its_service_may_not_assume_is_named(cli: CliSandbox, account: EmulatedAccount) -> None:
    iam = account.client("iam", "us-east-1")
    iam.create_role(RoleName="gpuproof-scheduler", AssumeRolePolicyDocument=TRUST)
    done = cli.gpuproof("setup", "--yes")
    assert done.returncode == 1
    assert "scheduler.amazonaws.com may not assume it" in done.stdout


def test_a_setup_that_was_killed_is_completed_by_the_next_one(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    assert cli.gpuproof("setup", "--yes").returncode == 0
    iam, s3, ec2 = (account.client(name, "us-east-1") for name in ("iam", "s3", "ec2"))
    iam.delete_role_policy(RoleName="gpuproof-sagemaker", PolicyName="gpuproof")
    iam.remove_role_from_instance_profile(InstanceProfileName="gpuproof-ec2", RoleName="gpuproof-ec2")
    s3.delete_bucket_tagging(Bucket=BUCKET)
    ec2.delete_security_group(GroupName="gpuproof")
    before = json.loads(cli.gpuproof("setup", "--dry-run", "--format", "json").stdout)
    assert sorted(state for state in states(before).values() if state != "exists") == [
        *(["incomplete"] * 3),
        "missing",
    ]
    assert cli.gpuproof("setup", "--yes").returncode == 0
    after = json.loads(cli.gpuproof("setup", "--dry-run", "--format", "json").stdout)
    assert after["complete"]
    assert has(account) == EVERYTHING
    assert cli.gpuproof("setup", "--remove", "--yes").returncode == 0
    assert has(account) == set()


@pytest.mark.parametrize(
    ("operation", "action"),
    [
        ("CreateRole", "iam:CreateRole"),
        ("AddRoleToInstanceProfile", "iam:AddRoleToInstanceProfile"),
        ("PutBucketPolicy", "s3:PutBucketPolicy"),
        ("CreateSecurityGroup", "ec2:CreateSecurityGroup"),
        ("GetRole", "iam:GetRole"),
        ("DescribeVpcs", "ec2:DescribeVpcs"),
    ],
)
def test_a_missing_permission_is_named_and_nothing_is_left(
    cli: CliSandbox, account: EmulatedAccount, operation: str, action: str
) -> None:
    account.fault(f"access-denied,operation={operation}")
    done = cli.gpuproof("setup", "--yes")
    assert done.returncode == 5, done.stderr
    assert "Access" in done.stderr or "Unauthorized" in done.stderr
    assert action in done.stderr
    assert has(account) == set()


def test_a_policy_of_an_older_version_is_replaced_and_comes_back_after_an_error(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    assert cli.gpuproof("setup", "--yes").returncode == 0
    iam = account.client("iam", "us-east-1")
    old = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}],
    }

    def attached() -> Any:
        return iam.get_role_policy(RoleName="gpuproof-ec2", PolicyName="gpuproof")["PolicyDocument"]

    new = attached()
    iam.put_role_policy(RoleName="gpuproof-ec2", PolicyName="gpuproof", PolicyDocument=json.dumps(old))
    account.client("ec2", "us-east-1").delete_security_group(GroupName="gpuproof")
    account.fault("access-denied,operation=CreateSecurityGroup,count=1")
    assert cli.gpuproof("setup", "--yes").returncode == 5
    assert attached() == old
    assert cli.gpuproof("setup", "--yes").returncode == 0
    assert attached() == new


def test_ctrl_c_undoes_what_was_created(cli: CliSandbox, account: EmulatedAccount) -> None:
    account.fault("slow,operation=CreateBucket,seconds=5,count=1")
    process = cli.start("setup", "--yes")
    until(lambda: "role gpuproof-scheduler" in has(account), "the roles")
    until(lambda: "CreateBucket" in account.operations(), "the slow request")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=300)
    assert process.returncode == 130
    assert has(account) == set()


def test_a_lost_response_does_not_create_anything_twice_nor_leave_anything(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    for operation in (
        "CreateRole",
        "PutRolePolicy",
        "CreateInstanceProfile",
        "AddRoleToInstanceProfile",
        "CreateBucket",
        "CreateSecurityGroup",
    ):
        account.fault(f"drop,operation={operation},count=1,when=after")
    done = cli.gpuproof("setup", "--yes")
    assert done.returncode == 0, done.stderr
    assert has(account) == EVERYTHING


def test_a_bucket_with_results_is_kept_unless_its_data_is_named(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    assert cli.gpuproof("setup", "--yes").returncode == 0
    account.client("s3", "us-east-1").put_object(Bucket=BUCKET, Key="gpuproof/runs/a/model.tar.gz", Body=b"x")
    done = cli.gpuproof("setup", "--remove", "--yes")
    assert done.returncode == 1
    assert "--include-data" in done.stderr
    assert has(account) == {f"bucket {BUCKET}"}
    assert cli.gpuproof("setup", "--remove", "--yes", "--include-data").returncode == 0
    assert has(account) == set()


def test_quotas_that_are_too_small_are_shown_with_the_request(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    account.emulator.context.quotas.set({"ml.p5.48xlarge for training job usage": 0.0})
    done = cli.gpuproof("setup", "--dry-run", "--instance-type", "ml.p5.48xlarge")
    assert "ml.p5.48xlarge for training job usage: 0" in done.stdout
    assert "aws service-quotas request-service-quota-increase" in done.stdout
    assert "ml.g5.xlarge" not in done.stdout


def test_the_policy_for_setup_covers_its_requests(cli: CliSandbox, account: EmulatedAccount) -> None:
    printed = json.loads(cli.gpuproof("iam", "policy", "--setup").stdout)
    assert printed == setup_policy()
    listed = {operation.replace("_", "") for _, operation in read_actions()}
    cli.gpuproof("setup", "--yes")
    cli.gpuproof("setup", "--remove", "--yes")
    made = {operation.lower() for operation in account.operations()}
    assert made <= listed


def test_the_template_of_cloudformation_has_every_part(cli: CliSandbox) -> None:
    printed = cli.gpuproof("setup", "--print", "cloudformation")
    template = yaml.safe_load(printed.stdout)
    assert (
        template
        == cloudformation()
        == json.loads(cli.gpuproof("setup", "--print", "cloudformation", "--format", "json").stdout)
    )
    kinds = sorted(resource["Type"] for resource in template["Resources"].values())
    assert kinds == sorted(
        [
            *(["AWS::IAM::Role"] * 3),
            "AWS::IAM::InstanceProfile",
            "AWS::S3::Bucket",
            "AWS::S3::BucketPolicy",
            "AWS::EC2::SecurityGroup",
        ]
    )
    assert "%" not in printed.stdout
    assert "gpuproof:setup" not in printed.stdout  # `gpuproof setup --remove` must not touch a stack


def test_the_configuration_of_terraform_can_be_read(cli: CliSandbox) -> None:
    text = cli.gpuproof("setup", "--print", "terraform").stdout
    assert text == terraform()
    assert terraform_syntax.problem(text) is None
    kinds = {resource.type for resource in hcl.resources(Unit("main.tf", text, "terraform"))}
    assert {"aws_iam_role", "aws_iam_instance_profile", "aws_s3_bucket", "aws_security_group"} <= kinds
    assert "%" not in text
    assert "gpuproof:setup" not in text


def test_the_templates_pass_the_projects_own_check(cli: CliSandbox, tmp_path: Path) -> None:
    cli.write("template.yaml", cli.gpuproof("setup", "--print", "cloudformation").stdout)
    cli.write("main.tf", cli.gpuproof("setup", "--print", "terraform").stdout)
    done = subprocess.run(
        [*GPUPROOF, "check", str(cli.project)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout
