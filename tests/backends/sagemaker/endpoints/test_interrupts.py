"""Ctrl-C and SIGTERM at every request of a deployment, on the emulator over HTTP; each test asserts what exists afterwards."""

from __future__ import annotations

import signal

import pytest

from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.sagemaker.endpoints.options import Scaling
from gpuproof.units import Duration
from support.endpoint_sandbox import EndpointSandbox
from support.interrupting_session import interrupted_after
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow

REQUESTS = (
    "PutObject",
    "CreateModel",
    "CreateEndpointConfig",
    "CreateSchedule",
    "CreateEndpoint",
    "DescribeEndpoint",
    "InvokeEndpoint",
    "RegisterScalableTarget",
    "PutScalingPolicy",
)
"""All requests of the deployment below, in order, by which AWS has something when the interrupt comes."""


@pytest.mark.parametrize("operation", REQUESTS)
def test_an_interrupt_when_aws_has_done_what_was_requested_leaves_nothing(
    endpoints: EndpointSandbox, operation: str
) -> None:
    plan = endpoints.plan(
        ttl=Duration(7200),
        schedule_role=endpoints.schedule_role(),
        scaling=Scaling(1, 3, 4.0),
    )
    number = (signal.SIGINT, signal.SIGTERM)[REQUESTS.index(operation) % 2]
    aws = endpoints.aws(interrupted_after(endpoints.emulator.session, operation, number))
    with sigterm_interrupts(), pytest.raises(KeyboardInterrupt):
        endpoints.deployment(plan, aws=aws).run()
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
    assert len(interrupted) == 4  # the server, configuration, model, files
    assert endpoints.left() == []


def test_the_upload_of_a_model_is_shown_with_its_bytes(endpoints: EndpointSandbox) -> None:
    progress = RecordingProgress()
    model = endpoints.packed()
    assert model.archive is not None
    size = model.archive.stat().st_size
    endpoints.deploy(endpoints.plan(model), progress)
    assert progress.sent[-1][1:] == (size, size)
    assert progress.sent[-1][0].startswith("upload ")
