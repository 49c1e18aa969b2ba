"""Ctrl-C and SIGTERM during deployments and deletions, on the emulator over HTTP; `test_transaction.py` has every moment."""

from __future__ import annotations

import signal

import pytest

from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.sagemaker.endpoints.delete import delete_endpoint, plan_deletion
from gpuproof.backends.sagemaker.endpoints.previous import roll_back_endpoint
from gpuproof.backends.sagemaker.endpoints.submit import Deployed
from gpuproof.units import Duration
from support.endpoint_sandbox import ECHO, EndpointSandbox
from support.interrupting_session import interrupted_after
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow

DOUBLE = ECHO.replace("return data", "return data * 2")


def test_sigterm_when_the_endpoint_was_created_leaves_nothing(endpoints: EndpointSandbox) -> None:
    plan = endpoints.plan(ttl=Duration(7200), schedule_role=endpoints.schedule_role())
    aws = endpoints.aws(interrupted_after(endpoints.emulator.session, "CreateEndpoint", signal.SIGTERM))
    with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
        endpoints.deployment(plan, aws=aws).run()
    assert endpoints.left() == []


def test_an_interrupt_at_the_last_request_leaves_nothing(endpoints: EndpointSandbox) -> None:
    plan = endpoints.plan(ttl=Duration(7200), schedule_role=endpoints.schedule_role(), max_instances=3)
    aws = endpoints.aws(interrupted_after(endpoints.emulator.session, "PutScalingPolicy", signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        endpoints.deployment(plan, aws=aws).run()
    assert endpoints.left() == []


def test_an_interrupted_update_returns_to_the_old_model(endpoints: EndpointSandbox) -> None:
    first = endpoints.deploy().config
    before = endpoints.left()
    plan = endpoints.plan(endpoints.packed(DOUBLE))
    aws = endpoints.aws(interrupted_after(endpoints.emulator.session, "UpdateEndpoint", signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        endpoints.deployment(plan, aws=aws).run()
    assert endpoints.serving() == ("InService", first)
    assert endpoints.invoke([1]) == [1]
    assert endpoints.left() == before


def test_an_interrupt_after_the_update_waits_until_the_success_is_reported(
    endpoints: EndpointSandbox,
) -> None:
    endpoints.deploy()
    second = endpoints.deploy().config
    third = endpoints.plan(endpoints.packed(DOUBLE))
    reported: list[Deployed] = []
    aws = endpoints.aws(interrupted_after(endpoints.emulator.session, "AddTags", signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        endpoints.deployment(third, aws=aws).run(reported.append)
    assert [deployed.config for deployed in reported] == [third.deployment]
    assert endpoints.serving() == ("InService", third.deployment)
    assert endpoints.invoke([1]) == [1, 1]
    configs = {line for line in endpoints.left() if line.startswith("config")}
    assert configs == {f"config {second}", f"config {third.deployment}"}


@pytest.mark.parametrize("operation", ["UpdateEndpoint", "AddTags", "DescribeEndpoint"])
def test_an_interrupted_return_to_the_previous_model_can_be_undone(
    endpoints: EndpointSandbox, operation: str
) -> None:
    configs = {endpoints.deploy().config, endpoints.deploy(endpoints.plan(endpoints.packed(DOUBLE))).config}
    aws = endpoints.aws(interrupted_after(endpoints.emulator.session, operation, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        roll_back_endpoint(aws, endpoints.name, RecordingProgress(), endpoints.sleep)
    endpoints.client.get_waiter("endpoint_in_service").wait(
        EndpointName=endpoints.name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    _, serves = endpoints.serving()
    again = roll_back_endpoint(endpoints.aws(), endpoints.name, RecordingProgress(), endpoints.sleep)
    assert {serves, again} == configs


DELETED = (
    "DeleteSchedule",
    "DeregisterScalableTarget",
    "DeleteEndpoint",
    "DeleteEndpointConfig",
    "DeleteModel",
    "DeleteObjects",
)


@pytest.mark.parametrize("operation", DELETED)
def test_what_an_interrupted_deletion_left_is_deleted_by_the_next(
    endpoints: EndpointSandbox, operation: str
) -> None:
    endpoints.deploy(ttl=Duration(7200), schedule_role=endpoints.schedule_role(), max_instances=3)
    aws = endpoints.aws(interrupted_after(endpoints.emulator.session, operation, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        delete_endpoint(aws, plan_deletion(aws, endpoints.name), RecordingProgress(), endpoints.sleep)
    if endpoints.left():
        aws = endpoints.aws()
        delete_endpoint(aws, plan_deletion(aws, endpoints.name), RecordingProgress(), endpoints.sleep)
    assert endpoints.left() == []


def test_an_interrupt_between_two_steps_of_the_rollback_leaves_nothing(endpoints: EndpointSandbox) -> None:
    """One interrupt ends the deployment, others come at the beginning of each step that undoes it."""
    interrupted: set[str] = set()

    def interrupt(_step: int) -> None:
        step = progress.steps[-1]
        undoes = step.startswith("delete ") and step != f"delete the endpoint {endpoints.name}"
        if step.startswith("ask the server") or (undoes and step not in interrupted):
            interrupted.add(step)
            raise KeyboardInterrupt

    progress = RecordingProgress(interrupt)
    with pytest.raises(KeyboardInterrupt):
        endpoints.deploy(endpoints.plan(), progress)
    assert len(interrupted) == 3  # the server, the configuration, the model with its files
    assert endpoints.left() == []


def test_the_upload_of_a_model_is_shown_with_its_bytes(endpoints: EndpointSandbox) -> None:
    progress = RecordingProgress()
    model = endpoints.packed()
    assert model.archive is not None
    size = model.archive.stat().st_size
    endpoints.deploy(endpoints.plan(model), progress)
    assert progress.sent[-1][1:] == (size, size)
    assert progress.sent[-1][0].startswith("upload ")
