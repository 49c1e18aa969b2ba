"""All instances of a job with several hosts are launched by one request, or none are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.launch_record import LaunchRecord
from support.ec2_sandbox import EC2Sandbox
from support.faulty_aws import disconnect, query_error
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow


def rules(sandbox: EC2Sandbox) -> list[dict[str, Any]]:
    """The inbound rules of GPUproof's security group."""
    filters = [
        {"Name": "vpc-id", "Values": [sandbox.vpc]},
        {"Name": "group-name", "Values": ["gpuproof"]},
    ]
    (group,) = sandbox.ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
    for rule in group["IpPermissions"]:
        assert [pair["GroupId"] for pair in rule["UserIdGroupPairs"]] == [group["GroupId"]]
    return group["IpPermissions"]


def test_two_hosts_are_two_instances_of_one_launch(sandbox: EC2Sandbox) -> None:
    plan, progress = sandbox.plan(job=sandbox.training(instance_count=2)), RecordingProgress()
    launched = sandbox.submit(plan, progress)
    assert sandbox.faulty.count("RunInstances") == 1
    described = sandbox.aws.instances(launched.record.instances)
    assert [description["AmiLaunchIndex"] for description in described] == [0, 1]
    assert len({description["SubnetId"] for description in described}) == 1
    content = sandbox.aws.get_bytes(plan.bucket.name, plan.layout.launch)
    assert LaunchRecord.parse(content or b"") == launched.record
    assert launched.record.instance_count == 2
    (rule,) = rules(sandbox)
    assert rule["IpProtocol"] == "-1"
    assert not rule["IpRanges"]
    assert progress.steps[-1] == "launch 2 instances g5.xlarge in us-east-1a"
    job = json.loads(sandbox.aws.get_bytes(plan.bucket.name, plan.layout.job) or b"")
    assert job["cluster_key"] == plan.cluster_key


def test_a_rule_that_another_run_has_added_is_used(sandbox: EC2Sandbox) -> None:
    plans = [sandbox.plan(job=sandbox.training(instance_count=2)) for _ in range(2)]
    for plan in plans:
        assert len(plan.network.calls) == 2
        sandbox.submit(plan)
    assert len(rules(sandbox)) == 1


def test_the_rule_of_a_new_group_is_added_once_the_group_is_visible(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(job=sandbox.training(instance_count=2))
    sandbox.faulty.fault("AuthorizeSecurityGroupIngress", query_error("InvalidGroup.NotFound"))
    sandbox.submit(plan)
    assert len(rules(sandbox)) == 1


def test_a_lost_response_launches_every_instance_once(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(job=sandbox.training(instance_count=2))
    sandbox.faulty.fault("RunInstances", disconnect(forwards=True))
    launched = sandbox.submit(plan)
    assert {instance["InstanceId"] for instance in sandbox.instances()} == set(launched.record.instances)
    assert len(launched.record.instances) == 2


def test_an_interrupt_terminates_every_instance(sandbox: EC2Sandbox) -> None:
    class Interrupted(Aws):
        def run_instances(self, request: Any) -> Any:
            super().run_instances(request)
            raise KeyboardInterrupt

    plan = sandbox.plan(job=sandbox.training(instance_count=2))
    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, aws=sandbox.client(Interrupted))
    sandbox.assert_nothing_left(plan)


def test_without_capacity_for_all_the_next_zone_is_tried(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(job=sandbox.training(instance_count=2))
    sandbox.refuse("InsufficientInstanceCapacity", "Insufficient capacity.", 500, zone="us-east-1a")
    launched = sandbox.submit(plan)
    assert launched.record.zone == "us-east-1b"
    assert len(sandbox.instances()) == 2
