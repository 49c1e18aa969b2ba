"""`--ttl`: the schedule that deletes the endpoint, on the emulator over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.sagemaker.endpoints.plan import EndpointPlan
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.units import Duration
from support.endpoint_sandbox import EndpointSandbox
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
    assert endpoints.kinds_left() == ["config", "file", "model"]


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


def settings(endpoints: EndpointSandbox) -> dict[str, Any]:
    """Everything of the schedule but its dates of creation and change."""
    found = endpoints.emulator.client("scheduler").get_schedule(Name=f"gpuproof-{endpoints.name}")
    ignored = ("CreationDate", "LastModificationDate", "ResponseMetadata")
    return {key: value for key, value in found.items() if key not in ignored}


@pytest.mark.slow
def test_an_update_moves_the_schedule(scheduled: EndpointSandbox) -> None:
    plan = update(scheduled)
    assert scheduled.deploy(plan).delete_at == plan.delete_at
    scheduled.emulator.run_schedules(at=datetime.now(UTC) + timedelta(hours=3))
    assert "endpoint" in scheduled.kinds_left()
    scheduled.emulator.run_schedules(at=datetime.now(UTC) + timedelta(hours=25))
    assert scheduled.kinds_left() == ["config", "file", "model"]


@pytest.mark.slow
def test_an_update_without_ttl_says_when_the_schedule_still_deletes_the_endpoint(
    scheduled: EndpointSandbox,
) -> None:
    old = settings(scheduled)
    moment = old["ScheduleExpression"].removeprefix("at(").removesuffix(")").replace("T", " ")
    expected = f"its schedule still deletes {scheduled.name} at {moment} UTC; --ttl moves it"
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
    assert any(f"keeps its old schedule, {old['ScheduleExpression']}" in note for note in deployed.notes)
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
        scheduled.deploy(plan)
    assert plan.schedule is not None
    assert settings(scheduled)["ScheduleExpression"] == plan.schedule.request["ScheduleExpression"]


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
