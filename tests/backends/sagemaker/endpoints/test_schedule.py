"""`--ttl`: the schedule that deletes the endpoint, on the emulator over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gpuproof.errors import GPUproofError, UsageError
from gpuproof.units import Duration
from support.endpoint_sandbox import EndpointSandbox
from support.sagemaker_sandbox import injected_faults

TTL = Duration(7200)
DENIED = "access-denied,service=scheduler,operation=CreateSchedule"


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
    assert endpoints.kinds_left() == ["config", "endpoint", "file", "model"]


def test_a_role_that_the_scheduler_may_not_assume_is_refused_with_the_command(
    endpoints: EndpointSandbox,
) -> None:
    with pytest.raises(UsageError, match="may not assume the role") as refused:
        endpoints.plan(ttl=TTL, schedule_role=endpoints.emulator.role)
    assert "gpuproof iam policy --on scheduler" in (refused.value.remedy or "")


def test_a_missing_role_is_refused(endpoints: EndpointSandbox) -> None:
    with pytest.raises(UsageError, match="there is no role gpuproof-scheduler"):
        endpoints.plan(ttl=TTL)


def test_a_life_shorter_than_a_start_is_refused(endpoints: EndpointSandbox) -> None:
    with pytest.raises(UsageError, match="at least 30 minutes"):
        endpoints.plan(ttl=Duration(600))
