"""States that a test sets, as those of a resource that hangs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from support.emulator_jobs import Account


def post(aws: Account, document: dict[str, Any]) -> str:
    """The error of a request to set a state; empty if it was accepted."""
    request = urllib.request.Request(
        f"{aws.emulator.url}/_gpuproof/states",
        json.dumps(document).encode(),
        {"Authorization": f"Bearer {aws.emulator.token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=300):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode()


def test_an_instance_is_shown_in_the_state_that_was_set(aws: Account) -> None:
    ec2 = aws.emulator.client("ec2")
    (instance,) = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1)["Instances"]
    id_ = instance["InstanceId"]
    aws.emulator.set_state("stopping", instance=id_)
    (reservation,) = ec2.describe_instances(InstanceIds=[id_])["Reservations"]
    assert reservation["Instances"][0]["State"] == {"Code": 64, "Name": "stopping"}
    ec2.terminate_instances(InstanceIds=[id_])


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"endpoint": "x", "state": "Sleeping"}, "'Sleeping' is none of the states that AWS documents"),
        ({"endpoint": "x", "state": "Updating"}, "There is no endpoint x in us-east-1"),
        ({"instance": "i-1", "state": "pending"}, "There is no instance i-1 in us-east-1"),
        ({"state": "pending"}, "expected endpoint or instance"),
        ({"endpoint": "x", "instance": "i-1", "state": "Failed"}, "expected endpoint or instance"),
    ],
)
def test_what_makes_no_sense_is_rejected(aws: Account, document: dict[str, Any], words: str) -> None:
    assert words in post(aws, document)
