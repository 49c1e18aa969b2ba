"""The schedule in AWS that terminates instances that nothing else has ended: no code of GPUproof runs on them here."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.requests.launch_objects import read_launch
from gpuproof.backends.ec2.requests.termination_schedule import MARGIN_S
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.ec2.submission.submission import Launched
from gpuproof.backends.remote.iam.policy import Scope, role_policy, trust_policy
from gpuproof.backends.remote.s3_layout import RunLayout
from support.aws_emulator import documented_values
from support.ec2_sandbox import EC2Sandbox
from support.sagemaker_sandbox import RecordingProgress, injected_faults

pytestmark = pytest.mark.slow

STATES = documented_values("ec2", "InstanceStateName")
ROLE = "gpuproof-scheduler"
REFUSED = "access-denied,service=scheduler,operation=CreateSchedule"


@pytest.fixture(scope="module")
def role(emulator: Any) -> str:
    """The role of schedules, with the policy that GPUproof prints."""
    iam, scope = emulator.client("iam"), Scope(backend="scheduler", account="123456789012")
    made = iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=json.dumps(trust_policy(scope)))
    policy = json.dumps(role_policy(scope))
    iam.put_role_policy(RoleName=ROLE, PolicyName="gpuproof", PolicyDocument=policy)
    return made["Role"]["Arn"]


@pytest.fixture
def plan(sandbox: EC2Sandbox, role: str) -> Iterator[EC2Plan]:
    """The plan of a run whose instance is covered; its schedules are deleted at the end."""
    yield replace(sandbox.plan(), schedule_role=role)
    scheduler = sandbox.emulator.client("scheduler")
    for schedule in schedules(sandbox):
        scheduler.delete_schedule(Name=schedule)


def schedules(sandbox: EC2Sandbox) -> list[str]:
    return [item["Name"] for item in sandbox.emulator.client("scheduler").list_schedules()["Schedules"]]


def ran(sandbox: EC2Sandbox, launched: Launched, seconds: float) -> list[str]:
    """Run what is due some seconds after the launch; returns the errors, empty for a call that succeeded."""
    runs = sandbox.emulator.run_schedules(at=launched.record.launching + seconds)
    return [run["error"] for run in runs]


def test_an_instance_that_never_reports_is_terminated_without_its_client(
    sandbox: EC2Sandbox, plan: EC2Plan
) -> None:
    launched = sandbox.submit(plan)
    limit = plan.max_duration + MARGIN_S
    assert ran(sandbox, launched, limit - 2) == []
    assert len(sandbox.instances(plan.run_id)) == 1
    assert ran(sandbox, launched, limit + 1) == [""]
    assert sandbox.instances(plan.run_id) == []


@pytest.mark.parametrize("state", STATES)
def test_an_instance_that_hangs_in_any_state_is_terminated(
    sandbox: EC2Sandbox, plan: EC2Plan, state: str
) -> None:
    launched = sandbox.submit(plan)
    (id_,) = launched.record.instances
    sandbox.emulator.set_state(state, instance=id_)
    assert ran(sandbox, launched, plan.max_duration + MARGIN_S + 1) == [""]
    (reservation,) = sandbox.ec2.describe_instances(InstanceIds=[id_])["Reservations"]
    assert reservation["Instances"][0]["State"]["Name"] == "terminated"


def test_what_ec2_refuses_is_tried_again(sandbox: EC2Sandbox, plan: EC2Plan) -> None:
    launched = sandbox.submit(plan)
    ids = list(launched.record.instances)
    protect = sandbox.ec2.modify_instance_attribute
    protect(InstanceId=ids[0], DisableApiTermination={"Value": True})
    (error,) = ran(sandbox, launched, plan.max_duration + MARGIN_S + 1)
    assert error
    protect(InstanceId=ids[0], DisableApiTermination={"Value": False})
    assert ran(sandbox, launched, plan.max_duration + MARGIN_S + 302) == [""]
    assert sandbox.instances(plan.run_id) == []


def test_a_schedule_that_cannot_be_created_is_a_note_that_names_what_is_not_covered(
    sandbox: EC2Sandbox, plan: EC2Plan
) -> None:
    progress = RecordingProgress()
    with injected_faults(sandbox.emulator, REFUSED):
        launched = sandbox.submit(plan, progress)
    assert any("does not boot" in note and "scheduler:CreateSchedule" in note for note in progress.notes)
    assert launched.record.schedule == ""
    assert len(sandbox.instances(plan.run_id)) == 1


class Killed(BaseException):
    """The end of the client's process."""


@pytest.fixture
def killed(sandbox: EC2Sandbox, plan: EC2Plan, monkeypatch: pytest.MonkeyPatch) -> EC2Plan:
    """A run whose client died between RunInstances and CreateSchedule: nothing was undone."""

    def die(*_: Any) -> None:
        raise Killed

    def do_nothing(*_: Any) -> None:
        pass

    with monkeypatch.context() as patch:
        patch.setattr("gpuproof.backends.ec2.submission.submission.termination_call", die)
        patch.setattr("gpuproof.backends.transaction.Transaction.__exit__", do_nothing)
        with pytest.raises(Killed):
            sandbox.submit(plan)
    assert len(sandbox.instances(plan.run_id)) == 1
    assert schedules(sandbox) == []
    return plan


def looked_at(sandbox: EC2Sandbox, plan: EC2Plan, seconds: float) -> EC2Run:
    """What a later command sees of the run, some seconds after its launch."""
    launch = read_launch(sandbox.aws, plan.bucket.name, plan.run_id)
    assert launch is not None
    run = EC2Run(sandbox.aws, launch, now=lambda: launch.launching + seconds)
    run.describe()
    return run


def test_the_next_command_creates_the_schedule_of_a_client_that_died_before_it(
    sandbox: EC2Sandbox, killed: EC2Plan
) -> None:
    looked_at(sandbox, killed, 100)
    assert schedules(sandbox) == []  # the submission may still be under way
    launch = looked_at(sandbox, killed, 400).launch
    assert schedules(sandbox) == [launch.schedule]
    assert read_launch(sandbox.aws, killed.bucket.name, killed.run_id) == launch
    runs = sandbox.emulator.run_schedules(at=launch.launching + killed.max_duration + MARGIN_S + 1)
    assert [run["error"] for run in runs] == [""]
    assert sandbox.instances(killed.run_id) == []


def test_a_schedule_that_the_record_does_not_name_is_found(sandbox: EC2Sandbox, killed: EC2Plan) -> None:
    launch = looked_at(sandbox, killed, 400).launch
    sandbox.aws.put_object(
        launch.bucket,
        RunLayout(launch.run_id).launch,
        replace(launch, instances=(), schedule="").to_bytes(),
    )
    assert looked_at(sandbox, killed, 400).launch == launch
    assert schedules(sandbox) == [launch.schedule]


def test_whoever_may_not_create_it_sees_the_run_nevertheless(sandbox: EC2Sandbox, killed: EC2Plan) -> None:
    with injected_faults(sandbox.emulator, REFUSED):
        run = looked_at(sandbox, killed, 400)
    assert run.launch.schedule == ""
    assert len(run.launch.instances) == 1


def test_an_undone_launch_leaves_no_schedule(sandbox: EC2Sandbox, plan: EC2Plan) -> None:
    denied = f"access-denied,operation=PutObject,name=*/{plan.run_id}.json,skip=1"
    with injected_faults(sandbox.emulator, denied), pytest.raises(AwsRefused):
        sandbox.submit(plan)
    sandbox.assert_nothing_left(plan, uploads=True)


def test_a_launch_that_cannot_be_undone_keeps_its_schedule(sandbox: EC2Sandbox, plan: EC2Plan) -> None:
    faults = (
        f"access-denied,operation=PutObject,name=*/{plan.run_id}.json,skip=1",
        "access-denied,service=ec2,operation=TerminateInstances",
    )
    with injected_faults(sandbox.emulator, *faults), pytest.raises(AwsRefused):
        sandbox.submit(plan)
    assert len(schedules(sandbox)) == 1
    sandbox.emulator.run_schedules(at=time.time() + plan.max_duration + MARGIN_S + 60)
    assert sandbox.instances(plan.run_id) == []


def test_the_end_of_a_run_deletes_its_schedule(sandbox: EC2Sandbox, plan: EC2Plan) -> None:
    launched = sandbox.submit(plan)
    run = EC2Run(sandbox.aws, launched.record, sleep=sandbox.slept.append)
    assert schedules(sandbox) == [launched.record.schedule]
    run.stop(at_once=True)
    run.wait()
    assert schedules(sandbox) == []


def test_a_plan_without_the_role_says_what_is_not_covered(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    assert not any(call.service == "scheduler" for call in plan.calls())
    covered = replace(plan, schedule_role=f"arn:aws:iam::123456789012:role/{ROLE}")
    operations = [call.operation for call in covered.calls()]
    assert operations.index("run_instances") < operations.index("create_schedule")
    assert "safeguard" in dict(covered.describe())
    assert "safeguard" not in dict(plan.describe())
