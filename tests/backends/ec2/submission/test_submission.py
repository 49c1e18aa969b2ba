"""A submission launches one instance, also when responses are lost."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.remote.s3_layout import CODE_TAGS
from support.ec2_sandbox import EC2Sandbox
from support.faulty_aws import disconnect, query_error
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow


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
    (request,) = [request for request in sandbox.faulty.requests if request.operation == "RunInstances"]
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
    groups = {group["GroupId"] for instance in sandbox.instances() for group in instance["SecurityGroups"]}
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
    sandbox.faulty.fault("DescribeInstances", hidden, times=3)
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


def test_runs_at_the_same_time_have_an_instance_each(sandbox: EC2Sandbox) -> None:
    plans = [sandbox.plan() for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        launched = list(pool.map(sandbox.submit, plans))
    assert len({item.record.instances for item in launched}) == 3
    assert len(sandbox.instances()) == 3
    assert sandbox.security_groups() == ["gpuproof"]
