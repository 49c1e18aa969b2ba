"""A submission launches one instance; without capacity in a zone, it is launched elsewhere."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.errors import NoCapacity
from gpuproof.backends.remote.s3_layout import CODE_TAGS
from gpuproof.errors import ExitCode
from support.ec2_sandbox import EC2Sandbox
from support.faulty_aws import disconnect, query_error
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


def test_an_instance_is_launched(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    launched = sandbox.submit(plan)
    (instance,) = sandbox.instances(plan.run_id)
    assert launched.record.instances == (instance["InstanceId"],)
    assert (launched.target.name, launched.zone.name, launched.tried) == ("g5.xlarge", "us-east-1a", ())
    assert instance["SubnetId"] == sandbox.zones[0].subnet
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["IamInstanceProfile"]["Arn"].endswith("/gpuproof-ec2")
    shutdown = sandbox.ec2.describe_instance_attribute(
        InstanceId=instance["InstanceId"], Attribute="instanceInitiatedShutdownBehavior"
    )
    assert shutdown["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"


def test_what_is_executed_is_what_was_planned(sandbox: EC2Sandbox) -> None:
    sandbox.submit(sandbox.plan())  # creates the security group
    plan = sandbox.plan()
    planned, before = plan.calls(), sandbox.objects()
    launched = sandbox.submit(plan)
    written = [call.request["Key"] for call in planned if call.service == "s3"]
    assert sandbox.objects() - before <= set(written) <= sandbox.objects()
    # Before the launch, and again with the ids of the instances.
    assert written.count(plan.layout.launch) == 2
    (launch,) = [call for call in planned if call.operation == "run_instances"]
    (instance,) = sandbox.aws.instances(launched.record.instances)
    # The token is a digest of the whole request.
    assert instance["ClientToken"] == launch.request["ClientToken"]


def test_a_spot_instance_is_launched(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(spot=True)
    launched = sandbox.submit(plan)
    assert launched.record.spot
    assert len(sandbox.instances(plan.run_id)) == 1
    (request,) = [one for one in sandbox.faulty.requests if one.operation == "RunInstances"]
    assert b"InstanceMarketOptions.SpotOptions.SpotInstanceType=one-time" in request.body
    assert b"InstanceMarketOptions.SpotOptions.MaxPrice" not in request.body


def test_its_volume_is_encrypted_tagged_and_ends_with_it(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    launched = sandbox.submit(plan)
    (volume,) = sandbox.volumes(plan.run_id)
    assert (volume["Size"], volume["VolumeType"], volume["Encrypted"]) == (100, "gp3", True)
    sandbox.aws.terminate_instances(launched.record.instances)
    assert sandbox.volumes(plan.run_id) == []


def test_the_record_in_the_bucket_is_that_of_the_launch(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    launched = sandbox.submit(plan)
    content = sandbox.aws.get_bytes(plan.bucket.name, plan.layout.launch)
    assert content is not None
    record = LaunchRecord.parse(content)
    assert record == launched.record
    assert (record.run_id, record.zone, record.instance_type) == (plan.run_id, "us-east-1a", "g5.xlarge")


def test_the_code_channel_has_what_the_host_downloads(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(job=sandbox.training(environment={"HF_TOKEN": "a secret value"}))
    sandbox.submit(plan)
    layout = plan.layout
    assert sandbox.objects(layout.code) == {layout.agent, layout.source, layout.job, layout.environment}
    environment = sandbox.aws.get_bytes(plan.bucket.name, layout.environment)
    assert json.loads(environment or b"") == {"HF_TOKEN": "a secret value"}
    s3 = sandbox.emulator.client("s3")
    tags = s3.get_object_tagging(Bucket=plan.bucket.name, Key=layout.environment)["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == CODE_TAGS


def test_a_secret_is_nowhere_else(sandbox: EC2Sandbox) -> None:
    secret = "tok-3n-v4lue-never-to-be-seen"
    plan = sandbox.plan(job=sandbox.training(environment={"HF_TOKEN": secret}))
    progress = RecordingProgress()
    launched = sandbox.submit(plan, progress)
    for key in sandbox.objects() - {plan.layout.environment}:
        assert secret.encode() not in (sandbox.aws.get_bytes(plan.bucket.name, key) or b"")
    assert secret not in repr((sandbox.instances(plan.run_id), launched, progress.steps, progress.notes))
    assert all(secret.encode() not in request.body for request in sandbox.faulty.requests)


def test_the_steps_are_named(sandbox: EC2Sandbox) -> None:
    progress = RecordingProgress()
    sandbox.submit(sandbox.plan(), progress)
    assert progress.steps == [
        "upload the agent",
        "upload the source",
        "upload the input training",
        "create the security group gpuproof",
        "copy the agent and the source into the code channel",
        "launch the instance g5.xlarge in us-east-1a",
    ]


def test_the_security_group_is_created_once_and_admits_no_connection(sandbox: EC2Sandbox) -> None:
    first, second = sandbox.plan(), sandbox.plan()
    assert first.network.calls
    assert second.network.calls
    sandbox.submit(first)
    sandbox.submit(second)
    assert sandbox.plan().network.calls == ()
    assert sandbox.security_groups() == ["gpuproof"]
    groups = {group["GroupId"] for one in sandbox.instances() for group in one["SecurityGroups"]}
    (group,) = groups
    (described,) = sandbox.ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
    assert described["GroupName"] == "gpuproof"
    assert described["IpPermissions"] == []


@pytest.mark.parametrize("forwards", [True, False], ids=["created", "not-created"])
def test_a_connection_lost_while_creating_the_security_group(sandbox: EC2Sandbox, forwards: bool) -> None:
    plan = sandbox.plan()
    sandbox.faulty.fault("CreateSecurityGroup", disconnect(forwards=forwards))
    if forwards:
        sandbox.submit(plan)
        assert len(sandbox.instances(plan.run_id)) == 1
        return
    with pytest.raises(Exception, match="CreateSecurityGroup"):
        sandbox.submit(plan)
    sandbox.assert_nothing_left(plan, uploads=True)


@pytest.mark.parametrize("forwards", [True, False], ids=["launched", "not-launched"])
def test_a_lost_response_launches_one_instance(sandbox: EC2Sandbox, forwards: bool) -> None:
    plan = sandbox.plan()
    sandbox.faulty.fault("RunInstances", disconnect(forwards=forwards))
    launched = sandbox.submit(plan)
    (instance,) = sandbox.instances()
    assert launched.record.instances == (instance["InstanceId"],)
    assert sandbox.faulty.count("RunInstances") == (1 if forwards else 2)


def test_a_launch_that_is_not_visible_yet_is_repeated_with_its_token(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    sandbox.faulty.fault("RunInstances", disconnect(forwards=True))
    empty = b"<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"
    hidden = query_error("")
    hidden.status, hidden.body = 200, empty
    sandbox.faulty.fault("DescribeInstances", hidden)
    launched = sandbox.submit(plan)
    (instance,) = sandbox.instances()
    assert launched.record.instances == (instance["InstanceId"],)
    assert sandbox.faulty.count("RunInstances") == 2


def test_an_internal_error_after_the_launch_launches_one_instance(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    answer = query_error("InternalError", "An internal error has occurred", 500)
    answer.forwards = True
    sandbox.faulty.fault("RunInstances", answer)
    launched = sandbox.submit(plan)
    (instance,) = sandbox.instances()
    assert launched.record.instances == (instance["InstanceId"],)


def test_a_garbled_response_launches_one_instance(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    half = query_error("")
    half.status, half.body, half.forwards = 200, b"<RunInstancesResponse><instancesSet>", True
    sandbox.faulty.fault("RunInstances", half)
    launched = sandbox.submit(plan)
    (instance,) = sandbox.instances()
    assert launched.record.instances == (instance["InstanceId"],)


NEW_PROFILE = (
    "InvalidParameterValue",
    "Value (gpuproof-ec2) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
)
NEW_GROUP = "InvalidGroup.NotFound", "The security group 'sg-1' does not exist"


@pytest.mark.parametrize("error", [NEW_PROFILE, NEW_GROUP], ids=["profile", "security-group"])
def test_a_new_profile_or_security_group_is_waited_for(sandbox: EC2Sandbox, error: tuple[str, str]) -> None:
    plan = sandbox.plan()
    assert plan.network.calls
    sandbox.faulty.fault("RunInstances", query_error(*error), times=3)
    sandbox.submit(plan)
    assert len(sandbox.instances()) == 1
    assert sandbox.faulty.count("RunInstances") == 4
    assert sum(sandbox.slept) > 10


@pytest.mark.parametrize("error", [NEW_PROFILE, NEW_GROUP], ids=["profile", "security-group"])
def test_one_that_ec2_never_knows_ends_the_submission(sandbox: EC2Sandbox, error: tuple[str, str]) -> None:
    sandbox.submit(sandbox.plan())  # creates the security group
    plan, before = sandbox.plan(), sandbox.objects()
    sandbox.faulty.fault("RunInstances", query_error(*error), times=None)
    with pytest.raises(AwsRefused, match=error[0]):
        sandbox.submit(plan)
    assert sandbox.objects() == before
    assert sandbox.instances(plan.run_id) == []
    # The group is not new.
    assert sandbox.faulty.count("RunInstances") == (1 if error is NEW_GROUP else 5) + 1


def test_throttling_is_waited_out(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    throttled = query_error("RequestLimitExceeded", "Request limit exceeded.", 503)
    sandbox.faulty.fault("RunInstances", throttled, times=4)
    sandbox.submit(plan)
    assert len(sandbox.instances()) == 1
    assert sum(sandbox.slept) > 4


def test_throttling_that_does_not_end_leaves_nothing(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    sandbox.refuse("RequestLimitExceeded", "Request limit exceeded.", 503)
    with pytest.raises(AwsRefused, match="RequestLimitExceeded"):
        sandbox.submit(plan)
    sandbox.assert_nothing_left(plan)


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
    assert [(one.name, one.zone, one.code) for one in launched.tried] == [("g5.xlarge", "us-east-1a", code)]
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
    assert [one.zone for one in launched.tried] == ["us-east-1a", "us-east-1b", "us-east-1c"]
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
    assert [one.name for one in launched.tried] == ["g5.xlarge", "g5.2xlarge"]
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
    assert [(one.name, one.code, one.zone) for one in launched.tried] == [
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


def test_an_image_of_another_architecture_leads_to_the_next_type(sandbox: EC2Sandbox) -> None:
    message = "The architecture 'arm64' of the specified instance type does not match the architecture 'x86_64' of the AMI."
    sandbox.refuse("InvalidParameterValue", message, instance="g5g.xlarge")
    launched = sandbox.submit(sandbox.plan("g5g.xlarge", "g5.xlarge"))
    assert launched.target.name == "g5.xlarge"
    assert len(launched.tried) == 1


def test_runs_at_the_same_time_have_an_instance_each(sandbox: EC2Sandbox) -> None:
    plans = [sandbox.plan() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        launched = list(pool.map(sandbox.submit, plans))
    assert len({one.record.instances for one in launched}) == 3
    assert len(sandbox.instances()) == 3
    assert sandbox.security_groups() == ["gpuproof"]
