"""Without capacity, quota or permission, an instance is launched in the next zone, or of the next type."""

from __future__ import annotations

import json

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.errors import NoCapacity
from gpuproof.errors import ExitCode
from support.ec2_sandbox import EC2Sandbox
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow

NO_CAPACITY = (
    "We currently do not have sufficient g5.xlarge capacity in the Availability Zone you requested (us-east-1a). Our system "
    "will be working on provisioning additional capacity. You can currently get g5.xlarge capacity by not specifying an "
    "Availability Zone in your request or choosing us-east-1c."
)
ZONAL = [
    ("InsufficientInstanceCapacity", "Insufficient capacity.", 500),
    (
        "InsufficientInstanceCapacity",
        "There is no Spot capacity available that matches your request.",
        500,
    ),
    ("InsufficientHostCapacity", "Insufficient host capacity.", 500),
    ("InsufficientVolumeCapacity", "Insufficient volume capacity.", 500),
    ("InsufficientCapacity", "No capacity now.", 500),
    ("UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration.", 500),
    ("InsufficientFreeAddressesInSubnet", "The subnet has no free addresses.", 400),
    (
        "SpotMaxPriceTooLow",
        "Your Spot request price of 0.1 is lower than the minimum required Spot request fulfillment price of 0.4.",
        400,
    ),
    ("Unsupported", "Your requested instance type (g5.xlarge) is not supported in your requested zone.", 400),
    ("Unsupported", "The requested configuration is currently not supported.", 400),
]
DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:iam::123456789012:user/me is not authorized to perform: "
    "ec2:RunInstances on resource: arn:aws:ec2:us-east-1:123456789012:instance/* with an explicit deny in a service control "
    "policy. Encoded authorization failure message: abc"
)
QUOTAS = [
    (
        "VcpuLimitExceeded",
        "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket.",
    ),
    ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded"),
    ("InstanceLimitExceeded", "Your quota allows for 0 more running instance(s)."),
]


@pytest.mark.parametrize(("code", "message", "status"), ZONAL, ids=lambda value: str(value)[:30])
def test_without_capacity_in_a_zone_the_next_is_tried(
    sandbox: EC2Sandbox, code: str, message: str, status: int
) -> None:
    plan, progress = sandbox.plan(), RecordingProgress()
    sandbox.refuse(code, message, status, zone="us-east-1a")
    launched = sandbox.submit(plan, progress)
    (instance,) = sandbox.instances()
    assert launched.zone.name == launched.record.zone == "us-east-1b"
    assert instance["Placement"]["AvailabilityZone"] == "us-east-1b"
    assert [(attempt.name, attempt.zone, attempt.code) for attempt in launched.tried] == [
        ("g5.xlarge", "us-east-1a", code)
    ]
    assert progress.notes == [
        f"g5.xlarge in us-east-1a: {code}: {message.split('. ', maxsplit=1)[0].rstrip('.')}"
    ]


def test_the_zone_that_ec2_recommends_is_tried_next(sandbox: EC2Sandbox) -> None:
    sandbox.refuse("InsufficientInstanceCapacity", NO_CAPACITY, 500, zone="us-east-1a")
    assert sandbox.submit(sandbox.plan()).zone.name == "us-east-1c"


def test_without_capacity_in_all_zones_the_next_type_is_tried(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan("g5.xlarge", "g6.xlarge")
    sandbox.refuse("InsufficientInstanceCapacity", "Insufficient capacity.", 500, instance="g5.xlarge")
    launched = sandbox.submit(plan)
    (instance,) = sandbox.instances()
    assert instance["InstanceType"] == launched.record.instance_type == "g6.xlarge"
    assert [attempt.zone for attempt in launched.tried] == ["us-east-1a", "us-east-1b", "us-east-1c"]
    job = json.loads(sandbox.aws.get_bytes(plan.bucket.name, plan.layout.job) or b"{}")
    assert job["instance_type"] == "g6.xlarge"


def test_without_any_capacity_all_that_was_tried_is_listed(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan("g5.xlarge", "g6.xlarge")
    for zone in sandbox.zones:
        message = NO_CAPACITY.replace("us-east-1a", zone.name)
        sandbox.refuse("InsufficientInstanceCapacity", message, 500, zone=zone.name)
    with pytest.raises(NoCapacity) as raised:
        sandbox.submit(plan)
    assert raised.value.exit_code == ExitCode.AWS_REFUSED
    zones = "us-east-1a, us-east-1c, us-east-1b: InsufficientInstanceCapacity: We currently do not have"
    _, first, second = raised.value.message.splitlines()
    assert first.startswith(f"g5.xlarge in {zones}")
    assert second.startswith(f"g6.xlarge in {zones}")
    assert len(raised.value.tried) == 6
    remedy = raised.value.remedy or ""
    assert "--fallback " in remedy
    assert "--fallback g6.xlarge" not in remedy
    assert "--regions us-east-2" in remedy
    sandbox.assert_nothing_left(plan, uploads=True)


@pytest.mark.parametrize(("code", "message"), QUOTAS, ids=[code for code, _ in QUOTAS])
def test_without_quota_the_next_type_of_another_quota_is_tried(
    sandbox: EC2Sandbox, code: str, message: str
) -> None:
    plan, progress = sandbox.plan("g5.xlarge", "g5.2xlarge", "p3.2xlarge"), RecordingProgress()
    sandbox.refuse(code, message, instance="g5.xlarge")
    sandbox.refuse(code, message, instance="g5.2xlarge")
    launched = sandbox.submit(plan, progress)
    assert launched.target.name == "p3.2xlarge"
    assert [attempt.name for attempt in launched.tried] == ["g5.xlarge", "g5.2xlarge"]
    # One zone of one type: quotas count in the region, and g5.2xlarge needs more of the same one.
    assert sandbox.faulty.count("RunInstances") == 2
    assert "L-DB2E81BA" in progress.notes[0]


def test_a_smaller_type_of_the_same_quota_is_tried(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan("g5.2xlarge", "g5.xlarge")
    sandbox.refuse("VcpuLimitExceeded", instance="g5.2xlarge")
    assert sandbox.submit(plan).target.name == "g5.xlarge"


def test_spot_counts_against_the_quota_of_spot(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(spot=True)
    sandbox.refuse("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
    with pytest.raises(NoCapacity) as raised:
        sandbox.submit(plan)
    assert "L-3819A6DF" in (raised.value.remedy or "")
    assert "at least 4 vCPUs" in (raised.value.remedy or "")
    # Instances that have just ended still count.
    assert (raised.value.remedy or "").endswith("Or run on demand: --no-spot\nOr try again later.")
    sandbox.assert_nothing_left(plan, uploads=True)


def test_of_each_quota_the_smallest_increase_is_requested(sandbox: EC2Sandbox) -> None:
    sandbox.refuse("VcpuLimitExceeded", "You have requested more than your current vCPU limit of 0 allows.")
    with pytest.raises(NoCapacity) as raised:
        sandbox.submit(sandbox.plan("g5.2xlarge", "g5.xlarge", "g6.xlarge", "p4d.24xlarge"))
    remedy = raised.value.remedy or ""
    assert remedy.count("request-service-quota-increase") == 2
    assert "g5.xlarge needs at least 4 vCPUs" in remedy
    assert "--quota-code L-DB2E81BA --desired-value 4 --region us-east-1" in remedy
    assert "--quota-code L-417A185B --desired-value 96" in remedy
    assert "try again later" not in remedy


def test_of_a_quota_that_other_instances_use_more_than_its_value_is_requested(sandbox: EC2Sandbox) -> None:
    message = "You have requested more vCPU capacity than your current vCPU limit of 8 allows for the instance bucket."
    sandbox.refuse("VcpuLimitExceeded", message)
    with pytest.raises(NoCapacity) as raised:
        sandbox.submit(sandbox.plan())
    remedy = raised.value.remedy or ""
    assert "g5.xlarge needs 4 vCPUs, and other instances of the account use the 8 of the quota" in remedy
    assert "gpuproof cleanup" in remedy
    assert "--desired-value 12 " in remedy


def test_what_to_do_depends_on_the_errors_that_came(sandbox: EC2Sandbox) -> None:
    sandbox.refuse("VcpuLimitExceeded", "Your limit of 0 allows no more.", instance="p4d.24xlarge")
    sandbox.refuse("SpotMaxPriceTooLow", "Your Spot request price of 0.1 is too low.", instance="g5.xlarge")
    sandbox.refuse("InsufficientFreeAddressesInSubnet", "", instance="g6.xlarge")
    sandbox.refuse("InvalidParameterValue", "The architecture 'arm64' does not match.", instance="g5g.xlarge")
    with pytest.raises(NoCapacity) as raised:
        sandbox.submit(sandbox.plan("p4d.24xlarge", "g5.xlarge", "g6.xlarge", "g5g.xlarge", spot=True))
    remedy = raised.value.remedy or ""
    for expected in ("L-7212CCBC", "resources.max_price", "ec2: subnets", "g5g needs arm64", "--fallback "):
        assert expected in remedy, expected


def test_a_service_control_policy_may_forbid_one_type_only(sandbox: EC2Sandbox) -> None:
    sandbox.refuse("UnauthorizedOperation", DENIED, 403, instance="p4d.24xlarge")
    launched = sandbox.submit(sandbox.plan("p4d.24xlarge", "g5.xlarge"))
    assert launched.target.name == "g5.xlarge"
    assert [(attempt.name, attempt.code, attempt.zone) for attempt in launched.tried] == [
        ("p4d.24xlarge", "UnauthorizedOperation", "")
    ]


def test_a_policy_that_forbids_every_type_is_the_error(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan("p4d.24xlarge", "g5.xlarge")
    sandbox.refuse("UnauthorizedOperation", DENIED, 403)
    with pytest.raises(AwsRefused, match="explicit deny in a service control policy") as raised:
        sandbox.submit(plan)
    assert "Contact the account's administrator" in (raised.value.remedy or "")
    assert sandbox.faulty.count("RunInstances") == 2
    sandbox.assert_nothing_left(plan)


def test_a_policy_that_demands_tags_is_no_reason_to_try_other_types(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan("p4d.24xlarge", "g5.xlarge")
    sandbox.refuse("UnauthorizedOperation", DENIED.replace(":instance/*", ":network-interface/*"), 403)
    with pytest.raises(AwsRefused, match="network-interface") as raised:
        sandbox.submit(plan)
    assert "If it demands tags, add them to the tags of the job" in (raised.value.remedy or "")
    assert sandbox.faulty.count("RunInstances") == 1
    sandbox.assert_nothing_left(plan)


def test_an_image_of_another_architecture_leads_to_the_next_type(sandbox: EC2Sandbox) -> None:
    message = "The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64' of the AMI."
    sandbox.refuse("InvalidParameterValue", message, instance="g5g.xlarge")
    launched = sandbox.submit(sandbox.plan("g5g.xlarge", "g5.xlarge"))
    assert launched.target.name == "g5.xlarge"
    assert len(launched.tried) == 1
