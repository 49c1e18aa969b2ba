"""A plan decides everything before anything is created."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.errors import NoCapacity
from gpuproof.backends.remote.s3_layout import RunLayout
from gpuproof.errors import InvalidJob, UsageError
from support.aws_emulator import RunningEmulator
from support.ec2_planning import EC2PlanningSandbox, create_instance_profile

pytestmark = pytest.mark.slow

G_QUOTA = "L-DB2E81BA"


@pytest.fixture
def quotas(emulator: RunningEmulator) -> Iterator[RunningEmulator]:
    """The emulator, whose quotas are restored afterwards."""
    yield emulator
    emulator.quotas({G_QUOTA: 500})


def test_a_plan_of_a_training_job(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(inputs={"training": "data"}, instance_type="ml.g5.xlarge"))
    target = plan.target
    assert (target.name, target.gpus, target.expected.name) == ("g5.xlarge", 1, "A10G")
    assert target.ami.id.startswith("ami-")
    assert target.ami.pythons == ("/opt/pytorch/bin",)
    assert "PyTorch 2.12" in target.ami.name
    assert target.ami.because == "train.py imports it"
    assert target.ami.root_device == "/dev/sda1"
    assert target.local_disk
    assert target.volume_gb > target.ami.snapshot_gb > 0
    assert [zone.name for zone in target.zones] == sorted(zone.name for zone in target.zones)
    assert all(zone.subnet.startswith("subnet-") for zone in target.zones)
    assert plan.profile.name == "gpuproof-ec2"
    assert plan.max_duration == 3600


def test_the_log_group_is_created_with_a_retention(sandbox: EC2PlanningSandbox) -> None:
    calls = [call for call in sandbox.plan().calls() if call.service == "logs"]
    assert [call.operation for call in calls] == ["create_log_group", "put_retention_policy"]
    assert calls[1].request["retentionInDays"] == 30


def test_a_plan_creates_nothing(sandbox: EC2PlanningSandbox) -> None:
    sandbox.emulator.forget_requests()
    sandbox.plan()
    reading = ("Describe", "Get", "Head", "List")
    writing = {name for name in sandbox.emulator.operations() if not name.startswith(reading)}
    # The emulator itself registers the image that a parameter names.
    assert writing <= {"RegisterImage"}


def test_the_hosts_parameters_follow_from_the_plan(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(inputs={"training": "data"}))
    parameters = plan.host_parameters(plan.target)
    assert list(parameters.inputs) == ["input/data/training"]
    assert parameters.inputs["input/data/training"].startswith(f"s3://{sandbox.bucket}/gpuproof/inputs/")
    assert parameters.checkpoints == f"s3://{sandbox.bucket}/gpuproof/checkpoints/small/{plan.run_id}/"
    # Nobody else writes there, so the instance need not look.
    assert not parameters.restore_checkpoints
    elsewhere = replace(plan, checkpoints="s3://elsewhere/checkpoints/")
    assert elsewhere.host_parameters(plan.target).restore_checkpoints
    next_attempt = replace(plan, run_id="small-20260501-120000-0123abcd")
    assert next_attempt.host_parameters(plan.target).restore_checkpoints
    assert parameters.output == f"s3://{sandbox.bucket}/{plan.layout.output}"
    assert (parameters.gpus, parameters.instance_type) == (1, "g5.xlarge")
    assert parameters.gpu_name == "A10G"
    assert parameters.min_driver_for.startswith("torch ")
    assert parameters.agent_sha256 == plan.uploads.agent.digest


def test_the_outputs_of_a_processing_job_have_prefixes_of_their_own(sandbox: EC2PlanningSandbox) -> None:
    job = sandbox.processing(
        inputs={"/opt/ml/processing/input": "data"},
        outputs={"/opt/ml/processing/out": None, "/opt/ml/processing/far": "s3://elsewhere/results"},
    )
    plan = sandbox.plan(job)
    parameters = plan.host_parameters(plan.target)
    assert list(parameters.inputs) == ["processing/input"]
    assert parameters.outputs["processing/far"] == "s3://elsewhere/results"
    assert parameters.outputs["processing/out"].startswith(f"s3://{sandbox.bucket}/{plan.layout.output}")
    assert (parameters.output, parameters.checkpoints) == ("", "")
    assert plan.record(plan.target).outputs == plan.outputs


def test_the_record_of_a_launch_is_read_again(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(tags={"team": "vision"}), fresh=True)
    record = plan.record(plan.target, plan.target.zones[0], created=1.5)
    assert LaunchRecord.parse(record.to_bytes()) == record
    assert (record.expects, record.require_gpu, record.fresh) == ("1 A10G", True, True)
    assert record.zone == plan.target.zones[0].name
    assert record.usd_per_hour == plan.target.price.usd_per_hour if plan.target.price else None


def test_the_description_names_what_is_paid_for(sandbox: EC2PlanningSandbox) -> None:
    lines = dict(sandbox.plan().describe())
    assert "at $1.0" in lines["instance"]
    assert lines["GPU"] == "1 x A10G requested (instance_type: g5.xlarge)"
    assert (
        "GiB gp3, encrypted, deleted with the instance; /opt/ml on the instance's local disk"
        in lines["volume"]
    )
    assert lines["time limit"].startswith("1h; at most $1.0")
    assert lines["profile"] == "gpuproof-ec2 (GPUproof's default)"
    assert "a new security group without inbound rules" in lines["network"]


def test_environment_variables_are_in_no_document(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(environment={"TOKEN": "very-secret"}))
    assert "very-secret" not in json.dumps(plan.document())
    assert "very-secret" not in str(plan.host_parameters(plan.target))
    (call,) = [call for call in plan.calls() if call.request.get("Key") == plan.layout.environment]
    assert json.loads(call.request["Body"]) == {"TOKEN": "very-secret"}


def test_the_last_calls_launch_the_instance_and_record_it(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(ec2={"security_groups": "sg-0123456789abcdef0"}))
    *_, before, launch, after = plan.calls()
    assert (launch.operation, launch.request["ImageId"]) == ("run_instances", plan.target.ami.id)
    assert plan.run_id in launch.request["UserData"]
    assert before.request["Key"] == after.request["Key"] == plan.layout.launch
    records = [LaunchRecord.parse(call.request["Body"]) for call in (before, after)]
    assert [record.instances for record in records] == [(), ("ID of the new instance",)]
    shown = plan.document()["calls"][-2]["request"]
    assert shown["UserData"].endswith(" bytes>")
    assert shown["SubnetId"] == plan.target.zones[0].subnet


def test_a_job_whose_tags_exceed_ec2s_limits_is_rejected(sandbox: EC2PlanningSandbox) -> None:
    with pytest.raises(InvalidJob, match="too many tags"):
        sandbox.plan(sandbox.training(tags={f"tag{number}": "1" for number in range(45)}))


def test_resources_become_the_cheapest_types(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(resources={"gpu": "A10G:1"}))
    assert [target.name for target in plan.targets][:2] == ["g5.xlarge", "g5.2xlarge"]
    assert plan.target.expected.because == "resources.gpu: A10G:1"


def test_an_existing_security_group_is_used_again(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan()
    (call,) = plan.network.calls
    ec2 = sandbox.emulator.client("ec2")
    group = getattr(ec2, call.operation)(**call.request)["GroupId"]
    try:
        again = sandbox.plan()
        assert (again.network.groups, again.network.calls) == ((group,), ())
        (made,) = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"]
        assert made["IpPermissions"] == []
    finally:
        ec2.delete_security_group(GroupId=group)


def test_several_hosts_are_planned_together(sandbox: EC2PlanningSandbox) -> None:
    job = sandbox.training(instance_type="g5.8xlarge", instance_count=2, distribution="torchrun")
    plan = sandbox.plan(job)
    parameters = plan.host_parameters(plan.target)
    assert parameters.hosts == ("algo-1", "algo-2")
    assert len(plan.agent_job(plan.target).cluster_key) == 64
    assert plan.cluster_key not in json.dumps(plan.document())
    assert [call.operation for call in plan.network.calls] == [
        "create_security_group",
        "authorize_security_group_ingress",
    ]
    (launch,) = [call.request for call in plan.calls() if call.operation == "run_instances"]
    assert (launch["MinCount"], launch["MaxCount"]) == (2, 2)
    assert plan.cluster_key not in launch["UserData"]
    lines = dict(plan.describe())
    assert lines["instance"].startswith("2 x g5.8xlarge at $")
    assert "an hour each" in lines["instance"]
    assert lines["launcher"] == "torchrun (1 process on each of 2 hosts)"
    one = sandbox.plan(sandbox.training(instance_type="g5.8xlarge"))
    assert one.cluster_key == ""
    assert plan.max_cost_usd(plan.target) == pytest.approx(2 * (one.max_cost_usd(one.target) or 0))
    assert any("Elastic Fabric Adapters" in warning for warning in plan.warnings)


def test_an_existing_security_group_gets_the_rule_for_several_hosts(sandbox: EC2PlanningSandbox) -> None:
    ec2 = sandbox.emulator.client("ec2")
    (call,) = sandbox.plan().network.calls
    group = getattr(ec2, call.operation)(**call.request)["GroupId"]
    several = sandbox.training(instance_count=2)
    try:
        plan = sandbox.plan(several)
        (call,) = plan.network.calls
        assert plan.network.groups == (group,)
        getattr(ec2, call.operation)(**call.request)
        assert sandbox.plan(several).network.calls == ()
    finally:
        ec2.delete_security_group(GroupId=group)


def test_hosts_in_security_groups_of_the_job_get_a_note(sandbox: EC2PlanningSandbox) -> None:
    plan = sandbox.plan(sandbox.training(instance_count=2, ec2={"security_groups": "sg-0123456789abcdef0"}))
    assert plan.network.calls == ()
    assert any("only if sg-0123456789abcdef0 allow" in warning for warning in plan.warnings)


def test_given_subnets_keep_their_order(sandbox: EC2PlanningSandbox) -> None:
    known = [zone.subnet for zone in sandbox.plan().target.zones]
    job = sandbox.training(ec2={"subnets": known[1::-1], "security_groups": "sg-0123456789abcdef0"})
    plan = sandbox.plan(job)
    assert [zone.subnet for zone in plan.target.zones] == known[1::-1]
    assert (plan.network.groups, plan.network.calls) == (("sg-0123456789abcdef0",), ())


def test_a_missing_subnet_is_named(sandbox: EC2PlanningSandbox) -> None:
    with pytest.raises(InvalidJob, match="has no subnet subnet-0123456789abcdef0"):
        sandbox.plan(sandbox.training(ec2={"subnets": "subnet-0123456789abcdef0"}))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"inputs": {"code": "data"}}, "input channel code"),
        ({"instance_type": "trn1.2xlarge"}, "trainium accelerators"),
        ({"instance_type": "p3.2xlarge"}, "no AWS Deep Learning AMI(.|\n)*Python is older than 3.9"),
        ({"framework": "pytorch", "framework_version": "1.5"}, "no AWS Deep Learning AMI with pytorch 1.5"),
        ({"ec2": {"ami": "ami-0123456789abcdef0"}}, "no AMI ami-0123456789abcdef0"),
        ({"ec2": {"volume_size": 1}}, "volume_size is 1 GiB"),
    ],
)
def test_what_cannot_run_is_rejected_before_anything_is_created(
    sandbox: EC2PlanningSandbox, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidJob, match=message) as caught:
        sandbox.plan(sandbox.training(**keys))
    assert caught.value.remedy


def test_an_old_gpu_whose_image_is_gone_is_told_so(sandbox: EC2PlanningSandbox) -> None:
    job = sandbox.training(
        instance_type="p3.2xlarge", framework="pytorch", framework_version="2.6", ec2={"container": True}
    )
    with pytest.raises(InvalidJob, match=r"no AMI for p3.2xlarge(.|\n)*newer ones no longer list p3"):
        sandbox.plan(job)


def test_a_quota_of_zero_leaves_no_instance(quotas: RunningEmulator, sandbox: EC2PlanningSandbox) -> None:
    quotas.quotas({G_QUOTA: 0})
    with pytest.raises(
        NoCapacity, match="Running On-Demand G and VT instances' is 0 vCPU, and 4 are needed"
    ) as caught:
        sandbox.plan()
    assert "--quota-code L-DB2E81BA --desired-value 4" in (caught.value.remedy or "")
    assert [attempt.name for attempt in caught.value.tried] == ["g5.xlarge"]


def test_a_type_beyond_its_quota_is_left_out(quotas: RunningEmulator, sandbox: EC2PlanningSandbox) -> None:
    quotas.quotas({G_QUOTA: 4})
    plan = sandbox.plan(sandbox.training(instance_type="g5.12xlarge", fallbacks=["g5.xlarge"]))
    assert [target.name for target in plan.targets] == ["g5.xlarge"]
    assert any("g5.12xlarge: VcpuLimitExceeded" in warning for warning in plan.warnings)


def test_missing_permissions_to_look_leave_decisions_to_ec2(sandbox: EC2PlanningSandbox) -> None:
    denied = ("DescribeInstanceTypeOfferings", "DescribeSpotPriceHistory")
    sandbox.emulator.faults(
        *(f"access-denied,service=ec2,operation={name}" for name in denied),
        "access-denied,service=servicequotas,operation=GetServiceQuota",
        "access-denied,service=iam,operation=GetInstanceProfile",
    )
    plan = sandbox.plan(sandbox.training(resources={"spot": True}, instance_type="g5.xlarge"))
    assert plan.target.spot_price is None
    assert len(plan.target.zones) > 1
    assert any("iam:GetInstanceProfile is not allowed" in warning for warning in plan.warnings)


def test_spot_capacity_has_todays_price(sandbox: EC2PlanningSandbox) -> None:
    job = sandbox.training(resources={"spot": True, "max_price": 0.2}, instance_type="g5.xlarge")
    plan = sandbox.plan(job)
    spot, on_demand = plan.target.spot_price, plan.target.price
    assert spot is not None
    assert on_demand is not None
    assert 0.2 < spot < on_demand.usd_per_hour
    record = plan.record(plan.target)
    assert (record.usd_per_hour, record.on_demand_usd_per_hour) == (spot, on_demand.usd_per_hour)
    lines = dict(plan.describe())
    assert "an hour now (on demand $1.0" in lines["instance"]
    assert lines["time limit"] == "1h; at most $0.20 on g5.xlarge, and the volume"
    assert any("more than max_price ($0.20)" in warning for warning in plan.warnings)


def test_the_profile_of_a_named_role_is_found(sandbox: EC2PlanningSandbox) -> None:
    arn = create_instance_profile(sandbox.emulator, "its-profile", role="its-role")
    plan = sandbox.plan(sandbox.training(ec2={"instance_profile": "its-role"}))
    assert (plan.profile.arn, plan.profile.because) == (arn, "the instance profile of the role its-role")


def test_a_missing_profile_is_told_with_the_commands_that_create_it(sandbox: EC2PlanningSandbox) -> None:
    with pytest.raises(UsageError, match="no instance profile absent") as caught:
        sandbox.plan(sandbox.training(ec2={"instance_profile": "absent"}))
    assert "aws iam create-instance-profile --instance-profile-name absent" in (caught.value.remedy or "")


def test_a_role_that_ec2_may_not_assume_is_rejected(sandbox: EC2PlanningSandbox) -> None:
    create_instance_profile(sandbox.emulator, "for-sagemaker", service="sagemaker.amazonaws.com")
    with pytest.raises(UsageError, match="EC2 may not assume the role for-sagemaker"):
        sandbox.plan(sandbox.training(ec2={"instance_profile": "for-sagemaker"}))


def test_a_run_continues_from_the_checkpoints_of_one_that_failed(sandbox: EC2PlanningSandbox) -> None:
    first = sandbox.plan()
    _end(sandbox, first.record(first.target), "Failed")
    assert sandbox.plan().checkpoints == f"{_own(sandbox, first.run_id)}"
    assert sandbox.plan(fresh=True).checkpoints != first.checkpoints
    _end(sandbox, first.record(first.target), "Completed")
    assert sandbox.plan().checkpoints != first.checkpoints


def test_a_run_whose_second_host_failed_has_not_completed(sandbox: EC2PlanningSandbox) -> None:
    first = sandbox.plan()
    record = replace(first.record(first.target), instance_count=2)
    _end(sandbox, record, "Completed")
    _end(sandbox, record, "Failed", host="algo-2")
    assert sandbox.plan().checkpoints == first.checkpoints
    _end(sandbox, record, "Completed", host="algo-2")
    assert sandbox.plan().checkpoints != first.checkpoints


def _own(sandbox: EC2PlanningSandbox, run_id: str) -> str:
    return f"s3://{sandbox.bucket}/gpuproof/checkpoints/small/{run_id}/"


def _end(sandbox: EC2PlanningSandbox, record: LaunchRecord, status: str, host: str = "algo-1") -> None:
    """Write what a run that has ended leaves behind."""
    layout, s3 = RunLayout(record.run_id), sandbox.emulator.client("s3")
    prefix = record.checkpoints.removeprefix(f"s3://{sandbox.bucket}/")
    for key, body in (
        (layout.launch, record.to_bytes()),
        (layout.host_file(host, "end.json"), json.dumps({"version": 1, "status": status}).encode()),
        (f"{prefix}weights", b"w"),
    ):
        s3.put_object(Bucket=sandbox.bucket, Key=key, Body=body)


def test_settings_of_sagemaker_that_ec2_does_not_have_are_named(sandbox: EC2PlanningSandbox) -> None:
    settings = {"keep_alive": "15min", "encrypt_traffic": True}
    warnings = sandbox.plan(sandbox.training(sagemaker=settings)).warnings
    assert (
        "of the job's settings for SageMaker, these have no effect on EC2: keep_alive, encrypt_traffic"
        in warnings
    )
    assert not any("settings for SageMaker" in warning for warning in sandbox.plan().warnings)
