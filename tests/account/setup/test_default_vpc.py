"""The default VPC that `gpuproof setup` creates, which gets its tag only after its creation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from support.cli_sandbox import CliSandbox, until
from support.emulated_account import EmulatedAccount

pytestmark = pytest.mark.slow

BUCKET = "gpuproof-123456789012-us-east-1"


@pytest.fixture(autouse=True)
def _own_vpc(account: EmulatedAccount) -> Iterator[None]:
    """The region's network is new for each test."""
    yield
    account.reset()


def no_default_vpc(account: EmulatedAccount) -> None:
    ec2 = account.client("ec2", "us-east-1")
    for vpc in ec2.describe_vpcs()["Vpcs"]:
        filters = [{"Name": "vpc-id", "Values": [vpc["VpcId"]]}]
        for subnet in ec2.describe_subnets(Filters=filters)["Subnets"]:
            ec2.delete_subnet(SubnetId=subnet["SubnetId"])
        ec2.delete_vpc(VpcId=vpc["VpcId"])


def test_a_default_vpc_is_created_and_removed_with_what_is_in_it(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    cli.gpuproof("setup", "--dry-run")  # the region's network exists from its first request
    no_default_vpc(account)
    assert cli.gpuproof("setup", "--yes").returncode == 0
    ec2 = account.client("ec2", "us-east-1")
    (vpc,) = ec2.describe_vpcs()["Vpcs"]
    groups = ec2.describe_security_groups()["SecurityGroups"]
    assert {group["VpcId"] for group in groups} == {vpc["VpcId"]}
    assert cli.gpuproof("setup", "--remove", "--yes").returncode == 0
    assert ec2.describe_vpcs()["Vpcs"] == []


def bucket_tags(account: EmulatedAccount) -> set[str]:
    tags = account.client("s3", "us-east-1").get_bucket_tagging(Bucket=BUCKET)["TagSet"]
    return {tag["Key"] for tag in tags}


def vpcs(account: EmulatedAccount) -> list[dict[str, Any]]:
    return account.client("ec2", "us-east-1").describe_vpcs()["Vpcs"]


@pytest.fixture
def killed(cli: CliSandbox, account: EmulatedAccount) -> CliSandbox:
    """A setup was killed after CreateDefaultVpc and before the VPC had its tag."""
    cli.gpuproof("setup", "--dry-run")
    no_default_vpc(account)
    account.fault("throttling,operation=CreateTags")
    process = cli.start("setup", "--yes")
    until(lambda: "CreateTags" in account.operations(), "the tag of the VPC")
    process.kill()
    process.communicate(timeout=300)
    account.emulator.context.faults.clear()
    assert [vpc.get("Tags") for vpc in vpcs(account)] in ([None], [[]])
    return cli


def test_a_default_vpc_of_a_setup_that_was_killed_before_its_tag_is_removed(
    killed: CliSandbox, account: EmulatedAccount
) -> None:
    done = killed.gpuproof("setup", "--remove", "--yes")
    assert done.returncode == 0, done.stderr
    assert "which an interrupted setup has created" in done.stdout
    assert vpcs(account) == []
    assert account.client("s3", "us-east-1").list_buckets()["Buckets"] == []


def test_the_next_setup_completes_a_default_vpc_without_its_tag(
    killed: CliSandbox, account: EmulatedAccount
) -> None:
    assert killed.gpuproof("setup", "--yes").returncode == 0
    assert [tag["Key"] for vpc in vpcs(account) for tag in vpc["Tags"]] == ["gpuproof:setup"]
    assert bucket_tags(account) == {"gpuproof:kind", "gpuproof:setup"}
    assert json.loads(killed.gpuproof("setup", "--dry-run", "--format", "json").stdout)["complete"]


def test_a_vpc_of_the_user_after_an_interrupted_setup_stays(
    killed: CliSandbox, account: EmulatedAccount
) -> None:
    account.client("s3", "us-east-1").put_object(Bucket=BUCKET, Key="gpuproof/runs/a", Body=b"x")
    assert killed.gpuproof("setup", "--remove", "--yes").returncode == 1  # the bucket has data
    account.client("ec2", "us-east-1").create_default_vpc()
    killed.gpuproof("setup", "--remove", "--yes", "--include-data")
    assert len(vpcs(account)) == 1


def test_a_lost_response_to_the_creation_of_the_default_vpc_leaves_it_known(
    cli: CliSandbox, account: EmulatedAccount
) -> None:
    cli.gpuproof("setup", "--dry-run")
    no_default_vpc(account)
    account.fault("drop,operation=CreateDefaultVpc,count=1,when=after")
    done = cli.gpuproof("setup", "--yes")
    assert done.returncode == 0, done.stderr
    assert [tag["Key"] for vpc in vpcs(account) for tag in vpc["Tags"]] == ["gpuproof:setup"]
    assert bucket_tags(account) == {"gpuproof:kind", "gpuproof:setup"}
