"""Without capacity in one region, the instances are launched in the next; their files stay in the job's own region."""

from __future__ import annotations

import base64
import os
import signal
import threading
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.ec2.spot_retries import SpotRetries
from gpuproof.backends.ec2.store import EC2RunStore
from gpuproof.backends.ec2.submit import submit
from gpuproof.backends.errors import NoCapacity
from gpuproof.backends.interrupts import Terminated, sigterm_interrupts
from support.aws_emulator import REGION
from support.ec2_sandbox import EC2Sandbox
from support.faulty_aws import FakeResponse, Request, disconnect, json_answer, query_error
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow

OTHER, THIRD = "us-west-2", "eu-west-1"
LACKING = ("InsufficientInstanceCapacity", "Insufficient capacity.", 500)


def zones_of(run_instances: list[Request]) -> list[str]:
    return [run_instance.region for run_instance in run_instances if run_instance.operation == "RunInstances"]


def test_the_next_region_follows_all_zones_and_types_of_the_first(sandbox: EC2Sandbox) -> None:
    plan, progress = sandbox.plan("g5.xlarge", "g6.xlarge", regions=(REGION, OTHER)), RecordingProgress()
    sandbox.refuse(*LACKING, region=REGION)
    launched = sandbox.submit(plan, progress)
    assert (launched.target.region, launched.target.name, launched.zone.name) == (
        OTHER,
        "g5.xlarge",
        f"{OTHER}a",
    )
    assert zones_of(sandbox.faulty.requests) == [REGION] * 6 + [OTHER]
    tried = [(attempt.name, attempt.region, attempt.zone) for attempt in launched.tried]
    assert tried == [
        (name, REGION, f"{REGION}{letter}") for name in ("g5.xlarge", "g6.xlarge") for letter in "abc"
    ]
    assert launched.tried[0].to_json()["region"] == REGION
    assert sandbox.instances(plan.run_id) == []
    (instance,) = sandbox.instances(plan.run_id, OTHER)
    assert instance["SubnetId"] == sandbox.zones_in(OTHER)[0].subnet
    assert sandbox.security_groups(OTHER) == ["gpuproof"]


def test_only_the_instances_move(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(regions=(REGION, OTHER))
    sandbox.refuse(*LACKING, region=REGION)
    launched = sandbox.submit(plan)
    record = LaunchRecord.parse(sandbox.aws.get_bytes(plan.bucket.name, plan.layout.launch) or b"")
    assert (record.region, record.bucket, record.zone) == (OTHER, plan.bucket.name, f"{OTHER}a")
    assert plan.layout.launch_region(OTHER) in sandbox.objects()
    (instance,) = launched.record.instances
    found = sandbox.ec2_in(OTHER).describe_instance_attribute(InstanceId=instance, Attribute="userData")
    script = base64.b64decode(found["UserData"]["Value"]).decode()
    # Files and logs are in the job's own region.
    assert f"region={REGION}\n" in script
    assert f'"region":"{REGION}"' in script
    assert OTHER not in script


def test_a_region_that_is_not_reached_gets_no_security_group(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(regions=(REGION, OTHER))
    sandbox.submit(plan)
    assert sandbox.security_groups(OTHER) == []
    assert not [item for item in sandbox.objects() if "/regions/" in item]


def test_what_is_executed_in_the_next_region_is_what_was_planned(sandbox: EC2Sandbox) -> None:
    sandbox.submit(sandbox.plan(regions=(OTHER,)))  # creates the security group
    plan = sandbox.plan(regions=(REGION, OTHER))
    _, planned = [call for call in plan.calls() if call.operation == "run_instances"]
    assert planned.region == OTHER
    assert planned.to_json()["region"] == OTHER
    sandbox.refuse(*LACKING, region=REGION)
    launched = sandbox.submit(plan)
    (instance,) = sandbox.aws.in_region(OTHER).instances(launched.record.instances)
    assert instance["ClientToken"] == planned.request["ClientToken"]
    marks = [key for call in plan.calls() if (key := call.request.get("Key", "")).endswith(plan.run_id)]
    assert marks == [plan.layout.launch_region(OTHER)]
    assert marks[0] in sandbox.objects()


def test_without_capacity_anywhere_each_region_is_listed_and_nothing_is_left(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(regions=(REGION, OTHER, THIRD))
    sandbox.refuse(*LACKING)
    with pytest.raises(NoCapacity) as raised:
        sandbox.submit(plan)
    assert [attempt.region for attempt in raised.value.tried] == [REGION] * 3 + [OTHER] * 3 + [THIRD] * 3
    zones = ", ".join(f"{THIRD}{letter}" for letter in "abc")
    assert f"g5.xlarge in {zones}: InsufficientInstanceCapacity" in raised.value.message
    assert f"--regions {OTHER}" not in (raised.value.remedy or "")
    sandbox.assert_nothing_left(plan, uploads=True)


def test_a_quota_is_that_of_one_region(sandbox: EC2Sandbox) -> None:
    plan, progress = sandbox.plan("g5.xlarge", "g5.2xlarge", regions=(REGION, OTHER)), RecordingProgress()
    sandbox.refuse("VcpuLimitExceeded", "Your limit of 0 allows no more.", region=REGION)
    launched = sandbox.submit(plan, progress)
    assert (launched.target.region, launched.target.name) == (OTHER, "g5.xlarge")
    assert [attempt.where for attempt in launched.tried] == [
        f"g5.xlarge in {REGION}",
        f"g5.2xlarge in {REGION}",
    ]


@pytest.mark.parametrize("operation", ["RunInstances", "CreateSecurityGroup"])
def test_a_region_that_refuses_every_launch_is_left(sandbox: EC2Sandbox, operation: str) -> None:
    plan, progress = sandbox.plan("g5.xlarge", "g6.xlarge", regions=(REGION, OTHER)), RecordingProgress()

    def forbid(request: Request) -> FakeResponse | None:
        return query_error("UnauthorizedOperation", "An explicit deny.") if request.region == REGION else None

    sandbox.faulty.fault(operation, forbid, None)
    if operation == "CreateSecurityGroup":
        with pytest.raises(AwsRefused):  # before anything is tried, it is an error of the job
            sandbox.submit(plan, progress)
        sandbox.assert_nothing_left(plan)
        return
    launched = sandbox.submit(plan, progress)
    assert launched.target.region == OTHER
    assert [attempt.where for attempt in launched.tried] == [f"g5.xlarge in {REGION}"]


def test_the_last_region_reports_its_own_error(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(regions=(REGION, OTHER))
    sandbox.refuse("UnauthorizedOperation", "You are not authorized.", region=OTHER)
    sandbox.refuse(*LACKING, region=REGION)
    with pytest.raises(AwsRefused, match="UnauthorizedOperation"):
        sandbox.submit(plan)
    sandbox.assert_nothing_left(plan)


def test_a_lost_response_in_the_next_region_launches_once(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(regions=(REGION, OTHER))
    lost = iter([disconnect(forwards=True)])

    def answer(request: Request) -> FakeResponse | None:
        return next(lost, None) if request.region == OTHER else query_error(*LACKING)

    sandbox.faulty.fault("RunInstances", answer, None)
    launched = sandbox.submit(plan)
    (instance,) = sandbox.instances(plan.run_id, OTHER)
    assert launched.record.instances == (instance["InstanceId"],)
    assert sandbox.instances(plan.run_id) == []
    assert next(lost, None) is None


def test_an_interrupted_launch_in_the_next_region_leaves_nothing_in_any(sandbox: EC2Sandbox) -> None:
    class Interrupted(Aws):
        """Ctrl-C comes when the instances in the other region were launched."""

        def run_instances(self, request: Any) -> Any:
            super().run_instances(request)
            raise KeyboardInterrupt

    sandbox.refuse(*LACKING, region=REGION)
    plan = sandbox.plan(regions=(REGION, OTHER), zones=None)
    with pytest.raises(KeyboardInterrupt):
        sandbox.submit(plan, aws=sandbox.client(Interrupted))
    sandbox.assert_nothing_left(plan)


@pytest.mark.parametrize("answered", [False, True])
def test_a_signal_while_the_next_region_launches_leaves_nothing(sandbox: EC2Sandbox, answered: bool) -> None:
    launched = threading.Event()

    class Waits(list[float]):
        """The launch is done before the instance is looked for again."""

        def append(self, seconds: float) -> None:
            assert launched.wait(120)
            super().append(seconds)

    def terminate(request: Request) -> FakeResponse | None:
        if request.region == REGION:
            return query_error(*LACKING)
        answer = sandbox.faulty.forward(request) if answered else None
        os.kill(os.getpid(), signal.SIGTERM)
        answer = answer or sandbox.faulty.forward(request)
        launched.set()
        return answer

    sandbox.slept = Waits()
    sandbox.faulty.fault("RunInstances", terminate, 4)
    plan = sandbox.plan(regions=(REGION, OTHER))
    with sigterm_interrupts(), pytest.raises(Terminated):
        sandbox.submit(plan)
    assert zones_of(sandbox.faulty.requests)[3:] == [OTHER]
    sandbox.assert_nothing_left(plan)


def test_a_run_in_another_region_is_managed_from_the_first(
    sandbox: EC2Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROOF_BUCKET", sandbox.bucket or "")
    sandbox.refuse(*LACKING, region=REGION)
    plan = sandbox.plan(regions=(REGION, OTHER))
    (instance,) = sandbox.submit(plan).record.instances
    store = EC2RunStore(sandbox.client())
    (record,), left = store.newest(1)
    assert (record.id, record.status, left) == (plan.run_id, "InProgress", 0)
    assert record.document["region"] == OTHER
    run = store.run(store.find(plan.run_id))
    assert (
        run.address
        == f"https://{OTHER}.console.aws.amazon.com/ec2/home?region={OTHER}#InstanceDetails:instanceId={instance}"
    )
    run.stop()
    (described,) = sandbox.instances(plan.run_id, OTHER)
    assert "gpuproof:stop" in {tag["Key"] for tag in described["Tags"]}
    run.stop(at_once=True)
    assert sandbox.instances(plan.run_id, OTHER) == []
    assert run.describe().record.has_ended
    run.remove()
    sandbox.assert_nothing_left(plan, uploads=True)


def test_a_session_is_opened_in_the_region_of_the_instance(
    sandbox: EC2Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_SSM", sandbox.faulty.url)
    sandbox.faulty.fault("GetConnectionStatus", json_answer({"Target": "i", "Status": "connected"}))
    launched = sandbox.submit(sandbox.plan(regions=(OTHER,)))
    (instance,) = launched.record.instances
    command = EC2Run(sandbox.client(), launched.record).shell_command("algo-1")
    assert command == ("aws", "ssm", "start-session", "--region", OTHER, "--target", instance)
    (asked,) = [request for request in sandbox.faulty.requests if request.operation == "GetConnectionStatus"]
    assert asked.region == OTHER


def test_living_runs_in_other_regions_are_listed_however_old(
    sandbox: EC2Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROOF_BUCKET", sandbox.bucket or "")
    elsewhere = sandbox.plan(regions=(OTHER,))
    sandbox.submit(elsewhere)
    newer = sandbox.plan()
    sandbox.submit(newer)
    listed, _ = EC2RunStore(sandbox.client()).newest(1)
    assert {elsewhere.run_id, newer.run_id} >= {entry.id for entry in listed}
    assert elsewhere.run_id in {entry.id for entry in listed}


def test_a_region_that_cannot_be_reached_later_leaves_the_other_runs_listed(
    sandbox: EC2Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROOF_BUCKET", sandbox.bucket or "")
    plans = [sandbox.plan(regions=(OTHER,)), sandbox.plan()]
    for plan in plans:
        sandbox.submit(plan)

    def disabled(request: Request) -> FakeResponse | None:
        return query_error("AuthFailure", "Not validated.", 401) if request.region == OTHER else None

    sandbox.faulty.fault("DescribeInstances", disabled, None)
    store = EC2RunStore(sandbox.client())
    listed, _ = store.newest(5)
    assert {entry.id for entry in listed} == {plan.run_id for plan in plans}
    assert any(OTHER in note for note in store.notes)


def test_after_late_lack_of_capacity_the_next_region_is_tried(sandbox: EC2Sandbox) -> None:
    plan = _only_zone_a(sandbox.plan(regions=(REGION, OTHER)))
    progress = RecordingProgress()
    runs = submit(plan, sandbox.aws, progress, sleep=sandbox.slept.append)
    first = next(runs)
    _end_as(sandbox, first, b"Server.InsufficientInstanceCapacity")
    first.wait()
    second = next(runs)
    assert (first.launch.region, second.launch.region) == (REGION, OTHER)
    assert progress.notes[-1] == (
        f"EC2 has no capacity for g5.xlarge in {REGION}a; trying g5.xlarge in {OTHER}a"
    )
    assert sandbox.objects("gpuproof/ec2/") == {
        f"gpuproof/ec2/{second.id}.json",
        f"gpuproof/ec2/regions/{OTHER}/{second.id}",
    }


def test_a_reclaimed_run_continues_in_the_next_region(sandbox: EC2Sandbox) -> None:
    plan = _only_zone_a(sandbox.plan(regions=(REGION, OTHER), spot=True))
    checkpoints = f"s3://{sandbox.bucket}/gpuproof/checkpoints/small/{plan.run_id}/"
    plan = replace(plan, checkpoints=checkpoints, retries=SpotRetries(2))
    runs = submit(plan, sandbox.aws, RecordingProgress(), sleep=sandbox.slept.append)
    first = next(runs)
    sandbox.refuse(*LACKING, region=REGION)
    _end_as(sandbox, first, b"Server.SpotInstanceTermination")
    first.wait()
    second = next(runs)
    assert (second.launch.region, second.launch.attempt) == (OTHER, 2)
    assert second.launch.checkpoints == checkpoints
    assert second.launch.interrupted[0].run_id == first.id
    # The next interruption has all regions tried again.
    _end_as(sandbox, second, b"Server.SpotInstanceTermination")
    second.wait()
    third = next(runs)
    assert (third.launch.region, third.launch.attempt) == (OTHER, 3)
    assert zones_of(sandbox.faulty.requests) == [REGION, REGION, OTHER, REGION, OTHER]


def _only_zone_a(plan: EC2Plan) -> EC2Plan:
    return replace(plan, targets=tuple(replace(target, zones=target.zones[:1]) for target in plan.targets))


def _end_as(sandbox: EC2Sandbox, run: EC2Run, code: bytes) -> None:
    """Terminate its instance, as EC2 does for this reason."""
    sandbox.ec2_in(run.launch.region).terminate_instances(InstanceIds=list(run.launch.instances))

    def describe(request: Request) -> FakeResponse:
        answer = sandbox.faulty.forward(request)
        return replace(answer, body=answer.body.replace(b"Client.UserInitiatedShutdown", code))

    sandbox.faulty.fault("DescribeInstances", describe, None)
