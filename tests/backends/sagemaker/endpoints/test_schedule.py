"""`--ttl`: the schedule that deletes the endpoint, on the emulator over HTTP."""

from __future__ import annotations

import json
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.sagemaker.endpoints.delete import delete_endpoint, plan_deletion
from gpuproof.backends.sagemaker.endpoints.plan import EndpointPlan
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.units import Duration
from support.aws_emulator import documented_values
from support.cli_sandbox import until
from support.endpoint_sandbox import EndpointSandbox, waits_for
from support.sagemaker_sandbox import RecordingProgress, injected_faults

TTL = Duration(7200)
DENIED = "access-denied,service=scheduler,operation=CreateSchedule"
NOT_MOVED = "access-denied,service=scheduler,operation=UpdateSchedule"
NOT_SCALED = "access-denied,service=application-autoscaling,operation=RegisterScalableTarget"
LATER = Duration(24 * 3600)


@pytest.mark.slow
def test_the_schedule_deletes_the_endpoint_without_this_machine(endpoints: EndpointSandbox) -> None:
    endpoints.deploy(ttl=TTL, schedule_role=endpoints.schedule_role())
    assert "schedule" in endpoints.kinds_left()
    endpoints.emulator.run_schedules(at=datetime.now(UTC) + timedelta(hours=3))
    assert endpoints.kinds_left() == ["config", "file", "model", "schedule"]


@pytest.mark.slow
def test_the_schedule_deletes_a_scaled_endpoint_with_the_printed_policy_only(
    endpoints: EndpointSandbox,
) -> None:
    role = endpoints.schedule_role()
    endpoints.deploy(ttl=TTL, schedule_role=role, max_instances=2)
    iam, name = endpoints.emulator.client("iam"), role.rpartition("/")[2]
    allowed = iam.get_role_policy(RoleName=name, PolicyName="gpuproof")["PolicyDocument"]
    policy = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "sagemaker:DeleteEndpoint", "Resource": "*"}],
    }
    iam.put_role_policy(RoleName=name, PolicyName="gpuproof", PolicyDocument=json.dumps(policy))
    (error,) = ran(endpoints, 2.1)
    assert "application-autoscaling:DeregisterScalableTarget" in error
    iam.put_role_policy(RoleName=name, PolicyName="gpuproof", PolicyDocument=json.dumps(allowed))
    # What was refused is tried again.
    assert ran(endpoints, 2.3) == [""]
    assert endpoints.kinds_left() == ["config", "file", "model", "schedule"]


@pytest.mark.slow
@pytest.mark.parametrize("state", ["Creating", "Updating"])
def test_the_schedule_deletes_an_endpoint_that_was_in_progress_when_its_time_came(
    endpoints: EndpointSandbox, state: str
) -> None:
    role = endpoints.schedule_role()
    if state == "Updating":
        endpoints.deploy()
    with socket.create_server(("127.0.0.1", 0)) as gate:
        start_and_die(
            endpoints, endpoints.plan(endpoints.packed(waits_for(gate)), ttl=TTL, schedule_role=role)
        )
        assert endpoints.serving()[0] == state
        (error,) = ran(endpoints, 2.1)
        assert "Cannot delete in-progress endpoint" in error
    until(lambda: endpoints.serving()[0] == "InService", "the endpoint's service")
    assert ran(endpoints, 2.3) == [""]
    assert "endpoint" not in endpoints.kinds_left()


STATES = documented_values("sagemaker", "EndpointStatus")
IN_PROGRESS = {"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"}


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
def test_the_schedule_deletes_an_endpoint_that_hangs_in_any_state(
    scheduled: EndpointSandbox, state: str
) -> None:
    """As soon as SageMaker allows it, within a day; the client is gone."""
    scheduled.emulator.set_state(state, endpoint=scheduled.name)
    if state in IN_PROGRESS:
        for hours in (2.1, 8, 20):
            (error,) = ran(scheduled, hours)
            assert "Cannot delete in-progress endpoint" in error
        scheduled.emulator.set_state("Failed", endpoint=scheduled.name)
    assert ran(scheduled, 20.2) == [""]
    assert "endpoint" not in scheduled.kinds_left()


@pytest.mark.slow
def test_a_redeployment_without_ttl_outlives_the_schedule_of_the_deleted_endpoint(
    scheduled: EndpointSandbox,
) -> None:
    ran(scheduled, 2.1)
    plan = scheduled.plan()
    assert any("schedule of an earlier" in warning for warning in plan.warnings)
    scheduled.deploy(plan)
    assert ran(scheduled, 2.5) == []
    assert "endpoint" in scheduled.kinds_left()


@pytest.mark.slow
def test_the_schedule_is_gone_after_a_day(scheduled: EndpointSandbox) -> None:
    ran(scheduled, 2.1)
    ran(scheduled, 27)
    assert scheduled.kinds_left() == ["config", "file", "model"]


@pytest.mark.slow
def test_a_schedule_of_that_name_that_deletes_something_else_is_left_alone(
    scheduled: EndpointSandbox,
) -> None:
    scheduler, old = scheduled.emulator.client("scheduler"), settings(scheduled)
    target = {**old["Target"], "Input": json.dumps({"EndpointName": "another"})}
    changed = {key: old[key] for key in ("Name", "ScheduleExpression", "StartDate", "EndDate")}
    scheduler.update_schedule(
        **changed, Target=target, FlexibleTimeWindow={"Mode": "OFF"}, ActionAfterCompletion="DELETE"
    )
    with pytest.raises(UsageError, match="does not delete the endpoint"):
        update(scheduled)
    aws = scheduled.aws()
    delete_endpoint(aws, plan_deletion(aws, scheduled.name), RecordingProgress(), scheduled.sleep)
    assert scheduled.kinds_left() == ["schedule"]
    scheduler.delete_schedule(Name=old["Name"])


@pytest.mark.slow
def test_a_schedule_that_cannot_be_created_undoes_the_deployment(endpoints: EndpointSandbox) -> None:
    plan = endpoints.plan(ttl=TTL, schedule_role=endpoints.schedule_role())
    with (
        injected_faults(endpoints.emulator, DENIED),
        pytest.raises(GPUproofError, match="schedule that deletes the endpoint cannot be created"),
    ):
        endpoints.deploy(plan)
    assert endpoints.left() == []


@pytest.mark.slow
def test_it_can_be_kept_without_a_schedule_which_is_said(endpoints: EndpointSandbox) -> None:
    role = endpoints.schedule_role()
    plan = endpoints.plan(ttl=TTL, schedule_role=role, keep_without_schedule=True)
    with injected_faults(endpoints.emulator, DENIED):
        deployed = endpoints.deploy(plan)
    assert any("will stay until you delete it" in note for note in deployed.notes)
    assert deployed.delete_at is None
    assert endpoints.kinds_left() == ["config", "endpoint", "file", "model"]


@pytest.fixture
def scheduled(endpoints: EndpointSandbox) -> EndpointSandbox:
    """An endpoint that its schedule deletes in two hours."""
    endpoints.deploy(ttl=TTL, schedule_role=endpoints.schedule_role())
    return endpoints


def update(endpoints: EndpointSandbox, **keys: Any) -> EndpointPlan:
    return endpoints.plan(ttl=LATER, schedule_role=f"scheduler-{endpoints.name}", **keys)


def start_and_die(endpoints: EndpointSandbox, plan: EndpointPlan) -> None:
    """Send the requests of a plan up to the endpoint's, as a client that is killed then: nothing waits, nothing is undone."""
    aws = endpoints.aws()
    for call in plan.calls:
        if call.operation == "upload_file":
            aws.upload_file(call.request["Bucket"], call.request["Key"], Path(call.request["Filename"]))
        else:
            execute(aws, call)
        if call == plan.start:
            return


def ran(endpoints: EndpointSandbox, hours: float) -> list[str]:
    """Run what is due some hours from now; returns the errors of this endpoint's schedules, empty for a call that succeeded."""
    runs = endpoints.emulator.run_schedules(at=datetime.now(UTC) + timedelta(hours=hours))
    return [run["error"] for run in runs if run["name"] == f"gpuproof-{endpoints.name}"]


def settings(endpoints: EndpointSandbox) -> dict[str, Any]:
    """Everything of the schedule but its dates of creation and change."""
    found = endpoints.emulator.client("scheduler").get_schedule(Name=f"gpuproof-{endpoints.name}")
    ignored = ("CreationDate", "LastModificationDate", "ResponseMetadata")
    return {key: value for key, value in found.items() if key not in ignored}


@pytest.mark.slow
def test_an_update_moves_the_schedule(scheduled: EndpointSandbox) -> None:
    before = time.time()
    delete_at = scheduled.deploy(update(scheduled)).delete_at
    assert delete_at is not None
    assert before <= delete_at - LATER.seconds <= time.time()
    scheduled.emulator.run_schedules(at=datetime.now(UTC) + timedelta(hours=3))
    assert "endpoint" in scheduled.kinds_left()
    scheduled.emulator.run_schedules(at=datetime.now(UTC) + timedelta(hours=25))
    assert scheduled.kinds_left() == ["config", "file", "model", "schedule"]


@pytest.mark.slow
def test_an_update_without_ttl_says_when_the_schedule_still_deletes_the_endpoint(
    scheduled: EndpointSandbox,
) -> None:
    old = settings(scheduled)
    moment = old["StartDate"].astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    expected = f"its schedule still deletes {scheduled.name} at {moment}; --ttl moves it"
    plan = scheduled.plan()
    assert expected in plan.warnings
    assert expected not in update(scheduled).warnings
    with injected_faults(scheduled.emulator, "access-denied,service=scheduler,operation=GetSchedule"):
        assert expected not in scheduled.plan().warnings
    scheduled.deploy(plan)
    assert settings(scheduled) == old


@pytest.mark.slow
def test_an_update_that_fails_after_the_schedule_was_moved_restores_it(scheduled: EndpointSandbox) -> None:
    before, left, old = scheduled.serving(), scheduled.left(), settings(scheduled)
    plan, progress = update(scheduled, max_instances=2), RecordingProgress()
    with injected_faults(scheduled.emulator, NOT_SCALED), pytest.raises(AwsRefused):
        scheduled.deploy(plan, progress)
    assert any(step.startswith("move the schedule") for step in progress.steps)
    assert settings(scheduled) == old
    assert scheduled.serving() == before
    assert scheduled.left() == left


@pytest.mark.slow
def test_an_interrupt_while_the_schedule_is_moved_restores_it(scheduled: EndpointSandbox) -> None:
    def interrupt(_step: int) -> None:
        if progress.steps[-1].startswith("scale"):
            raise KeyboardInterrupt

    before, left, old = scheduled.serving(), scheduled.left(), settings(scheduled)
    progress = RecordingProgress(interrupt)
    with pytest.raises(KeyboardInterrupt):
        scheduled.deploy(update(scheduled, max_instances=2), progress)
    assert (scheduled.serving(), scheduled.left(), settings(scheduled)) == (before, left, old)


@pytest.mark.slow
def test_a_schedule_that_cannot_be_moved_undoes_the_update_and_stays(scheduled: EndpointSandbox) -> None:
    before, left, old = scheduled.serving(), scheduled.left(), settings(scheduled)
    plan = update(scheduled)
    with (
        injected_faults(scheduled.emulator, NOT_MOVED),
        pytest.raises(GPUproofError, match="cannot be moved"),
    ):
        scheduled.deploy(plan)
    assert (scheduled.serving(), scheduled.left(), settings(scheduled)) == (before, left, old)


@pytest.mark.slow
def test_an_update_kept_without_its_new_schedule_says_that_the_old_one_remains(
    scheduled: EndpointSandbox,
) -> None:
    old = settings(scheduled)
    plan = update(scheduled, keep_without_schedule=True)
    with injected_faults(scheduled.emulator, NOT_MOVED):
        deployed = scheduled.deploy(plan)
    moment = old["StartDate"].astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    assert any(f"keeps its old schedule, {moment}" in note for note in deployed.notes)
    assert deployed.delete_at is None
    assert scheduled.serving() == ("InService", deployed.config)
    assert settings(scheduled) == old


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_connection_lost_while_the_schedule_is_moved_moves_it_once(
    scheduled: EndpointSandbox, when: str
) -> None:
    plan = update(scheduled)
    fault = f"drop,service=scheduler,operation=UpdateSchedule,when={when},count=1"
    with injected_faults(scheduled.emulator, fault):
        delete_at = scheduled.deploy(plan).delete_at
    assert delete_at is not None
    assert settings(scheduled)["StartDate"].timestamp() == int(delete_at)


@pytest.mark.slow
def test_a_schedule_that_cannot_be_restored_is_named_and_the_old_model_serves(
    scheduled: EndpointSandbox,
) -> None:
    before, left = scheduled.serving(), scheduled.left()
    plan, progress = update(scheduled, max_instances=2), RecordingProgress()
    restored = f"{NOT_MOVED},skip=1"
    with injected_faults(scheduled.emulator, NOT_SCALED, restored), pytest.raises(AwsRefused):
        scheduled.deploy(plan, progress)
    assert any(f"not done: return the schedule gpuproof-{scheduled.name}" in note for note in progress.notes)
    assert not any("gpuproof delete" in note for note in progress.notes)
    assert scheduled.serving() == before
    assert scheduled.left() == left


def test_a_role_that_the_scheduler_may_not_assume_is_refused_with_the_command(
    endpoints: EndpointSandbox,
) -> None:
    with pytest.raises(UsageError, match="may not assume the role") as refused:
        endpoints.plan(ttl=TTL, schedule_role=endpoints.emulator.role)
    assert "gpuproof iam policy --on scheduler" in (refused.value.remedy or "")


def test_a_missing_role_is_refused(endpoints: EndpointSandbox) -> None:
    with pytest.raises(UsageError, match="there is no role gpuproof-scheduler"):
        endpoints.plan(ttl=TTL)
