"""What follows each of EC2's errors."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from gpuproof.backends.aws.error_hints import find_hint
from gpuproof.backends.aws.errors import CAPACITIES, QUOTAS, THROTTLES
from gpuproof.backends.ec2.submission import errors
from gpuproof.backends.ec2.submission.errors import next_attempt, read_errors, zones_with_capacity

CASES = [
    ("InsufficientInstanceCapacity", "Insufficient capacity.", "zone"),
    ("UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration.", "zone"),
    ("Unsupported", "Your requested instance type (p5.48xlarge) is not supported in your zone.", "zone"),
    ("InsufficientFreeAddressesInSubnet", "", "zone"),
    ("SpotMaxPriceTooLow", "Your Spot request price of 0.1 is lower than the minimum", "zone"),
    ("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit", "quota"),
    ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded", "quota"),
    ("InstanceLimitExceeded", "Your quota allows for 0 more running instance(s).", "quota"),
    (
        "InvalidParameterValue",
        "The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64' of the AMI.",
        "type",
    ),
    (
        "InvalidParameterValue",
        "The requested instance type's architecture (x86_64) does not match the architecture in the manifest",
        "type",
    ),
    ("InvalidParameterValue", "Invalid IAM Instance Profile name", "again"),
    ("InvalidGroup.NotFound", "The security group 'sg-1' does not exist", "again"),
    ("InvalidParameterValue", "Value for parameter is invalid.", "stop"),
    ("InvalidBlockDeviceMapping", "Volume of size 8GB is smaller than snapshot 'snap-1'", "stop"),
    ("UnauthorizedOperation", "You are not authorized to perform this operation.", "region"),
    (
        "UnauthorizedOperation",
        "You are not authorized to perform this operation. ... with an explicit deny in a service control policy.",
        "type",
    ),
    (
        "UnauthorizedOperation",
        (
            "... to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:instance/* with an explicit deny in a "
            "service control policy."
        ),
        "type",
    ),
    *(
        (
            "UnauthorizedOperation",
            (
                f"... to perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:{part}/* with an explicit deny in a service "
                "control policy. Encoded authorization failure message: abc"
            ),
            "region",
        )
        for part in (
            "123456789012:network-interface",
            "123456789012:spot-instances-request",
            "123456789012:volume",
            ":image",
        )
    ),
    ("PendingVerification", "Your account is currently being verified.", "stop"),
    ("PendingVerification", "Your request for accessing resources in this region is being", "region"),
    ("OptInRequired", "You are not subscribed to this service.", "region"),
    ("OptInRequired", "In order to use this AWS Marketplace product you need to accept terms", "stop"),
    ("SomethingNew", "That no table has.", "stop"),
]


@pytest.mark.parametrize(("code", "message", "following"), CASES)
def test_what_is_tried_next(code: str, message: str, following: str) -> None:
    assert next_attempt(code, message) == following


def test_zones_that_a_message_recommends_are_found() -> None:
    message = (
        "We currently do not have sufficient p3.2xlarge capacity in the Availability Zone you requested (us-east-1a). You "
        "can currently get p3.2xlarge capacity by not specifying an Availability Zone in your request or choosing "
        "us-east-1c, us-east-1d, us-gov-west-1a."
    )
    assert zones_with_capacity(message) == ("us-east-1c", "us-east-1d", "us-gov-west-1a")
    assert zones_with_capacity("Insufficient capacity.") == ()


def test_the_table_agrees_with_the_groups_of_error_codes() -> None:
    for row in read_errors():
        assert (row.kind == "quota") == (row.code in QUOTAS), row.code
        assert (row.kind == "throttling") == (row.code in THROTTLES), row.code
        if row.next == "zone" and row.kind == "capacity" and not row.code.startswith("Server."):
            # EC2 answers with status 500, and certainly has launched nothing.
            assert row.code in CAPACITIES, row.code


def test_each_error_that_ends_the_submission_has_a_remedy_of_its_own() -> None:
    general = find_hint("ec2", "RunInstances", ("SomethingNew",), "")
    for row in read_errors():
        if row.next in ("again", "stop", "region"):
            message = row.message.replace(".*", " ")
            assert find_hint("ec2", "RunInstances", (row.code,), message) != general, row.code


def test_capacity_comes_back_and_quotas_do_not_grow_by_themselves() -> None:
    for row in read_errors():
        if row.kind in ("capacity", "spot price", "throttling"):
            assert row.passes, row.code
        if row.kind in ("not offered", "image", "volume", "permission"):
            assert not row.passes, row.code
    assert [row.code for row in read_errors() if row.kind == "quota" and row.passes] == [
        "MaxSpotInstanceCountExceeded"
    ]


def test_each_row_has_a_source_and_a_date() -> None:
    table = Path(errors.__file__).parent / "data" / "errors.csv"
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 20
    for row in rows:
        assert row["source"].startswith("https://"), row
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row["as_of"]), row
