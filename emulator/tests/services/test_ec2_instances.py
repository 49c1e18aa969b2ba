"""A repeated `RunInstances` request with the same client token launches no second instance."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.aws_emulator import running_emulator
from support.emulator_jobs import Account

pytestmark = pytest.mark.slow

IMAGE = "ami-12c6146b"


def request(token: str, **more: Any) -> dict[str, Any]:
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "token", "Value": token}]}]
    return {
        "ImageId": IMAGE,
        "InstanceType": "g5.xlarge",
        "MinCount": 1,
        "MaxCount": 1,
        "UserData": "#!/bin/sh\n",
        "TagSpecifications": tags,
        "ClientToken": token,
        **more,
    }


def launched(ec2: Any, token: str) -> list[str]:
    found = ec2.describe_instances(Filters=[{"Name": "tag:token", "Values": [token]}])
    return [instance["InstanceId"] for each in found["Reservations"] for instance in each["Instances"]]


def test_a_repeated_request_returns_the_same_instance(aws: Account) -> None:
    ec2, token = aws.client("ec2"), secrets.token_hex(8)
    first = ec2.run_instances(**request(token))
    again = ec2.run_instances(**request(token))
    (one,), (two,) = first["Instances"], again["Instances"]
    assert two["InstanceId"] == one["InstanceId"]
    assert (two["InstanceType"], two["ClientToken"]) == ("g5.xlarge", token)
    assert again["ReservationId"] == first["ReservationId"]
    assert launched(ec2, token) == [one["InstanceId"]]


def test_requests_at_the_same_time_launch_one_instance(aws: Account) -> None:
    ec2, token = aws.client("ec2"), secrets.token_hex(8)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: ec2.run_instances(**request(token)), range(4)))
    assert len({item["Instances"][0]["InstanceId"] for item in made}) == 1
    assert len(launched(ec2, token)) == 1


def test_another_token_launches_another_instance(aws: Account) -> None:
    ec2, token, other = aws.client("ec2"), secrets.token_hex(8), secrets.token_hex(8)
    ec2.run_instances(**request(token))
    ec2.run_instances(**request(other))
    assert launched(ec2, token) != launched(ec2, other)


def test_other_parameters_with_the_same_token_are_rejected(aws: Account) -> None:
    ec2, token = aws.client("ec2"), secrets.token_hex(8)
    ec2.run_instances(**request(token))
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        ec2.run_instances(**request(token, InstanceType="g5.2xlarge"))
    assert len(launched(ec2, token)) == 1


def test_a_fault_leaves_one_region_without_capacity(aws: Account) -> None:
    here, there, token = aws.client("ec2"), aws.client("ec2", region="us-west-2"), secrets.token_hex(8)
    aws.emulator.faults("capacity,service=ec2,instance=g5.*,region=us-east-*")
    try:
        with pytest.raises(ClientError, match="InsufficientInstanceCapacity") as caught:
            here.run_instances(**request(token))
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500
        assert launched(here, token) == []
        there.run_instances(**request(token))
        assert len(launched(there, token)) == 1
        here.run_instances(**request(secrets.token_hex(8), InstanceType="g6.xlarge"))
    finally:
        aws.emulator.faults()


def test_the_token_of_a_request_that_was_rejected_can_be_used_again(aws: Account) -> None:
    ec2, token = aws.client("ec2"), secrets.token_hex(8)
    with pytest.raises(ClientError, match="SubnetID"):
        ec2.run_instances(**request(token, SubnetId="subnet-0123456789abcdef0"))
    ec2.run_instances(**request(token))
    assert len(launched(ec2, token)) == 1


def test_an_instance_its_network_and_its_token_are_the_same_after_a_restart(tmp_path: Path) -> None:
    def network(ec2: Any) -> list[str]:
        return sorted(subnet["SubnetId"] for subnet in ec2.describe_subnets()["Subnets"])

    token = secrets.token_hex(8)
    with running_emulator(tmp_path) as emulator:
        ec2 = emulator.client("ec2")
        subnets = network(ec2)
        subnet = {"SubnetId": subnets[0]}
        first = ec2.run_instances(**request(token, **subnet))["Instances"][0]["InstanceId"]
    with running_emulator(tmp_path) as emulator:
        ec2 = emulator.client("ec2")
        assert network(ec2) == subnets
        again = ec2.run_instances(**request(token, **subnet))
        assert again["Instances"][0]["InstanceId"] == first
        assert launched(ec2, token) == [first]


def test_all_instances_of_a_launch_have_its_instance_profile(aws: Account) -> None:
    iam, name = aws.client("iam"), f"profile-{secrets.token_hex(4)}"
    iam.create_instance_profile(InstanceProfileName=name)
    ec2, token = aws.client("ec2"), secrets.token_hex(8)
    ec2.run_instances(**request(token, MinCount=3, MaxCount=3, IamInstanceProfile={"Name": name}))
    described = ec2.describe_instances(InstanceIds=launched(ec2, token))["Reservations"]
    profiles = [
        instance["IamInstanceProfile"]["Arn"].rpartition("/")[2]
        for each in described
        for instance in each["Instances"]
    ]
    assert profiles == [name] * 3
