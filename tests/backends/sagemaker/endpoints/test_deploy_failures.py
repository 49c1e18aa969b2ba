"""Deployments that fail or are interrupted, on the emulator over HTTP: what exists afterwards."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuproof.backends.aws import AwsRefused
from gpuproof.backends.sagemaker.endpoints.delete import delete_endpoint, plan_deletion
from gpuproof.backends.sagemaker.endpoints.errors import DeploymentFailed, EndpointGone, GpuNotUsed
from gpuproof.backends.sagemaker.endpoints.previous import roll_back_endpoint
from gpuproof.errors import ExitCode
from support.cli_sandbox import until
from support.endpoint_sandbox import ECHO, EndpointSandbox, waits_for
from support.sagemaker_sandbox import RecordingProgress, injected_faults

pytestmark = pytest.mark.slow

CRASHES = ECHO.replace(
    'return "model"', "raise RuntimeError('CUDA out of memory. Tried to allocate 20.00 MiB')"
)
KILLED = ECHO.replace('return "model"', "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
SLOW = ECHO.replace('return "model"', "import time; time.sleep(2); return 'model'")
HANGS = ECHO.replace('return "model"', "import time; time.sleep(600)")
RAISES = ECHO.replace("return data", "raise ValueError('no such row')")


@pytest.fixture
def gate() -> Iterator[socket.socket]:
    """A listener that holds models which `waits_for` it until it is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_model_that_cannot_be_loaded_leaves_nothing_and_its_log_is_explained(
    endpoints: EndpointSandbox,
) -> None:
    with pytest.raises(DeploymentFailed, match="did not pass the ping health check") as failure:
        endpoints.deploy(endpoints.plan(endpoints.packed(CRASHES)))
    assert any("CUDA out of memory" in line for line in failure.value.log)
    assert any("memory" in explanation.cause for explanation in failure.value.explanations)
    assert endpoints.left() == []


def test_a_container_that_runs_out_of_memory_leaves_nothing(endpoints: EndpointSandbox) -> None:
    with pytest.raises(DeploymentFailed):
        endpoints.deploy(endpoints.plan(endpoints.packed(KILLED)))
    assert endpoints.left() == []


def test_a_container_that_never_answers_ping_leaves_nothing(endpoints: EndpointSandbox) -> None:
    from gpuproof.units import Duration

    with pytest.raises(DeploymentFailed, match="ping"):
        endpoints.deploy(endpoints.plan(endpoints.packed(HANGS), startup_timeout=Duration(60)))
    assert endpoints.left() == []


def test_a_slow_start_is_waited_for(endpoints: EndpointSandbox) -> None:
    endpoints.deploy(endpoints.plan(endpoints.packed(SLOW)))
    assert endpoints.invoke([1]) == [1]


def test_a_model_that_is_not_on_the_gpu_is_deleted(endpoints: EndpointSandbox) -> None:
    with pytest.raises(GpuNotUsed, match="no GPU is visible") as failure:
        endpoints.deploy(require_gpu=True)
    assert failure.value.exit_code == ExitCode.GPU_UNUSED
    assert endpoints.left() == []


def test_a_model_that_does_not_answer_the_sample_request_is_deleted(
    endpoints: EndpointSandbox, tmp_path: Path
) -> None:
    request = tmp_path / "request.json"
    request.write_text("[1]")
    with pytest.raises(DeploymentFailed, match="sample request"):
        endpoints.deploy(endpoints.plan(endpoints.packed(RAISES), request=request))
    assert endpoints.left() == []


def test_capacity_that_is_missing_after_the_creation_is_the_reason_and_nothing_is_left(
    endpoints: EndpointSandbox,
) -> None:
    with (
        injected_faults(endpoints.emulator, "capacity,instance=ml.g5.*"),
        pytest.raises(DeploymentFailed) as caught,
    ):
        endpoints.deploy(endpoints.plan())
    assert "capacity" in caught.value.message.lower()
    assert endpoints.kinds_left() == []


@pytest.mark.parametrize("fault", ["quota,instance=ml.g5.*", "capacity,at=creation,instance=ml.g5.*"])
def test_without_quota_or_capacity_nothing_is_left(endpoints: EndpointSandbox, fault: str) -> None:
    plan = endpoints.plan()
    with (
        injected_faults(endpoints.emulator, fault),
        pytest.raises((AwsRefused, DeploymentFailed)) as failure,
    ):
        endpoints.deploy(plan)
    assert failure.value.exit_code == ExitCode.AWS_REFUSED
    assert endpoints.left() == []


def test_a_rollback_that_fails_names_what_is_left_and_keeps_what_the_endpoint_needs(
    endpoints: EndpointSandbox,
) -> None:
    progress = RecordingProgress()
    denied = "access-denied,operation=DeleteEndpoint"
    with injected_faults(endpoints.emulator, denied), pytest.raises(DeploymentFailed):
        endpoints.deploy(endpoints.plan(endpoints.packed(CRASHES)), progress)
    assert endpoints.kinds_left() == ["config", "endpoint", "file", "model"]
    assert any(f"gpuproof delete {endpoints.name}" in note for note in progress.notes)


@pytest.mark.parametrize(
    ("operation", "left"),
    [("DeleteModel", ["model"]), ("DeleteEndpointConfig", ["config"]), ("DeleteObjects", ["file", "model"])],
)
def test_what_a_rollback_may_not_delete_is_all_that_is_left_and_named(
    endpoints: EndpointSandbox, operation: str, left: list[str]
) -> None:
    progress = RecordingProgress()
    with (
        injected_faults(endpoints.emulator, f"access-denied,operation={operation}"),
        pytest.raises(DeploymentFailed),
    ):
        endpoints.deploy(endpoints.plan(endpoints.packed(CRASHES)), progress)
    assert endpoints.kinds_left() == left
    (note,) = [note for note in progress.notes if note.startswith("not done")]
    assert f"Delete it: gpuproof delete {endpoints.name}" in note
    aws = endpoints.aws()
    assert delete_endpoint(aws, plan_deletion(aws, endpoints.name), RecordingProgress()) == []
    assert endpoints.left() == []


def test_files_that_a_rollback_may_not_delete_are_named_with_the_command(endpoints: EndpointSandbox) -> None:
    progress = RecordingProgress()
    denied = ("access-denied,operation=DeleteObjects", "access-denied,operation=CreateModel")
    with injected_faults(endpoints.emulator, *denied), pytest.raises(AwsRefused):
        endpoints.deploy(endpoints.plan(), progress)
    assert endpoints.kinds_left() == ["file"]
    assert any("aws s3 rm --recursive s3://" in note for note in progress.notes)


def test_a_return_to_a_previous_model_that_fails_can_be_tried_again(endpoints: EndpointSandbox) -> None:
    first = endpoints.deploy().config
    second = endpoints.deploy().config
    with (
        injected_faults(endpoints.emulator, "capacity,instance=ml.g5.*"),
        pytest.raises(DeploymentFailed),
    ):
        roll_back_endpoint(endpoints.aws(), endpoints.name, RecordingProgress(), endpoints.sleep)
    assert endpoints.serving() == ("InService", second)
    again = roll_back_endpoint(endpoints.aws(), endpoints.name, RecordingProgress(), endpoints.sleep)
    assert again == first
    assert endpoints.serving() == ("InService", first)


def test_an_update_that_fails_keeps_the_old_model_in_service(endpoints: EndpointSandbox) -> None:
    first = endpoints.deploy().config
    with pytest.raises(DeploymentFailed, match="stays in service"):
        endpoints.deploy(endpoints.plan(endpoints.packed(CRASHES)))
    assert endpoints.invoke([1]) == [1]
    assert [line for line in endpoints.left() if first not in line] == [f"endpoint {endpoints.name}"]


def test_an_update_that_is_not_on_the_gpu_returns_to_the_old_model(endpoints: EndpointSandbox) -> None:
    first = endpoints.deploy().config
    with pytest.raises(GpuNotUsed):
        endpoints.deploy(endpoints.plan(require_gpu=True))
    assert endpoints.serving() == ("InService", first)
    assert [line for line in endpoints.left() if first not in line] == [f"endpoint {endpoints.name}"]


def test_an_endpoint_that_somebody_else_deletes_leaves_nothing(
    endpoints: EndpointSandbox, gate: socket.socket
) -> None:
    def delete(_step: int) -> None:
        if progress.steps[-1] != f"wait for the endpoint {endpoints.name}: Creating":
            return
        gate.close()
        endpoints.client.get_waiter("endpoint_in_service").wait(
            EndpointName=endpoints.name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
        )
        endpoints.client.delete_endpoint(EndpointName=endpoints.name)

    progress = RecordingProgress(delete)
    with pytest.raises(EndpointGone, match="another user or command"):
        endpoints.deploy(endpoints.plan(endpoints.packed(waits_for(gate))), progress)
    assert endpoints.left() == []


def test_a_second_interrupt_names_the_endpoint_that_is_left(
    endpoints: EndpointSandbox, gate: socket.socket
) -> None:
    def interrupt(_step: int) -> None:
        if progress.steps[-1].startswith(("wait for", "wait until")):
            raise KeyboardInterrupt

    progress = RecordingProgress(interrupt)
    with pytest.raises(KeyboardInterrupt):
        endpoints.deploy(endpoints.plan(endpoints.packed(waits_for(gate))), progress)
    assert any("interrupted again" in note for note in progress.notes)
    assert endpoints.kinds_left() == ["config", "endpoint", "file", "model"]


def test_a_lost_connection_after_creation_creates_nothing_twice(endpoints: EndpointSandbox) -> None:
    plan = endpoints.plan()
    with injected_faults(endpoints.emulator, "drop,operation=CreateEndpoint,when=after,count=1"):
        endpoints.deploy(plan)
    assert endpoints.invoke([1]) == [1]
    until(lambda: endpoints.kinds_left() == ["config", "endpoint", "file", "model"], "one of each")
