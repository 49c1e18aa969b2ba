"""A run whose spot instance EC2 reclaims is followed by another one that continues from its checkpoints."""

from __future__ import annotations

import base64
import json
import os
import signal
import threading
import time
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.requests.launch_objects import read_launch
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.ec2.spot_retries import SpotRetries
from gpuproof.backends.ec2.submit import submit
from gpuproof.backends.errors import NoCapacity
from gpuproof.backends.interrupts import Terminated, sigterm_interrupts
from gpuproof.backends.remote.s3_layout import RunLayout
from support.ec2_sandbox import EC2Sandbox
from support.faulty_aws import FakeResponse, Request
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow

MOTOS_CODE = b"Client.UserInitiatedShutdown"
RECLAIMED = b"Server.SpotInstanceTermination"


def spot_plan(sandbox: EC2Sandbox, *types: str, retries: int = 2, zones: int = 2) -> EC2Plan:
    """A plan of a spot run with checkpoints."""
    plan = sandbox.plan(*types, zones=sandbox.zones[:zones], spot=True)
    checkpoints = f"s3://{sandbox.bucket}/gpuproof/checkpoints/small/{plan.run_id}/"
    return replace(plan, checkpoints=checkpoints, retries=SpotRetries(retries))


def started(
    sandbox: EC2Sandbox, plan: EC2Plan, progress: RecordingProgress | None = None
) -> Generator[EC2Run, None, None]:
    runs = submit(plan, sandbox.aws, progress or RecordingProgress(), sleep=sandbox.slept.append)
    assert isinstance(runs, Generator)
    return runs


def end(sandbox: EC2Sandbox, run: EC2Run, status: str = "Stopped", *, interrupted: bool = True) -> None:
    """The host reports its end, and its instance shuts down."""
    _report_end(sandbox, run, status, interrupted=interrupted)
    sandbox.ec2.terminate_instances(InstanceIds=list(run.launch.instances))
    run.wait()


def _report_end(
    sandbox: EC2Sandbox, run: EC2Run, status: str, *, interrupted: bool, host: str = "algo-1"
) -> None:
    now = time.time()
    document = {
        "status": status,
        "secondary_status": "Interrupted" if interrupted else status,
        "failure_reason": "EC2 takes the spot instance back" if interrupted else "",
        "started": now,
        "script_started": None,
        "ended": now + 600,
        "interrupted": interrupted,
    }
    key = RunLayout(run.id).host_file(host, "end.json")
    sandbox.aws.put_object(str(sandbox.bucket), key, json.dumps(document).encode())


def test_a_reclaimed_run_is_continued_by_another_with_the_same_checkpoints(sandbox: EC2Sandbox) -> None:
    plan, progress = spot_plan(sandbox), RecordingProgress()
    runs = started(sandbox, plan, progress)
    first = next(runs)
    end(sandbox, first)
    second = next(runs)
    assert second.id != first.id
    assert second.launch.checkpoints == first.launch.checkpoints == plan.checkpoints
    # The zone that has reclaimed the first comes last.
    assert (first.launch.zone, second.launch.zone) == ("us-east-1a", "us-east-1b")
    assert (first.launch.attempt, second.launch.attempt) == (1, 2)
    assert progress.notes[-1] == (
        "EC2 has reclaimed g5.xlarge in us-east-1a; starting again from its checkpoints (retry 1 of 2)"
    )
    (instance,) = sandbox.instances()
    assert second.launch.instances == (instance["InstanceId"],)
    assert str(plan.checkpoints) in _user_data(sandbox, instance["InstanceId"])
    end(sandbox, second, "Completed", interrupted=False)
    assert list(runs) == []
    document = second.record.document
    assert (document["attempt"], document["earlier_runs"], document["interruptions"]) == (2, [first.id], 1)
    assert document["lost_seconds"] >= 599  # EC2 reports the launch in whole seconds
    assert sandbox.instances() == []
    stored = read_launch(sandbox.aws, str(sandbox.bucket), first.id)
    assert stored is not None
    assert (stored.continued_by, stored.lost_seconds) == (second.id, first.launch.lost_seconds)
    assert (
        f"its spot instance was reclaimed; {second.id} continues it"
        in EC2Run(sandbox.aws, stored).record.notes
    )


def test_the_instances_that_ec2_has_left_are_terminated_before_the_next_run(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(job=sandbox.training(instance_count=2), zones=sandbox.zones[:2], spot=True)
    runs = started(sandbox, replace(plan, retries=SpotRetries(1)))
    first = next(runs)
    for host in ("algo-1", "algo-2"):
        _report_end(sandbox, first, "Stopped", interrupted=host == "algo-1", host=host)
    first.wait()
    assert len(sandbox.instances()) == 2  # they have reported their end, and hang while they power off
    second = next(runs)
    assert {instance["InstanceId"] for instance in sandbox.instances()} == set(second.launch.instances)


def test_it_is_started_again_only_so_often(sandbox: EC2Sandbox) -> None:
    seen: list[int] = []
    for run in started(sandbox, spot_plan(sandbox, retries=1)):
        seen.append(run.launch.attempt)
        end(sandbox, run)
    assert seen == [1, 2]


def test_without_retries_an_interruption_is_the_end(sandbox: EC2Sandbox) -> None:
    runs = started(sandbox, spot_plan(sandbox, retries=0))
    end(sandbox, next(runs))
    assert list(runs) == []


@pytest.mark.parametrize(
    ("status", "interrupted"), [("Failed", False), ("Stopped", False), ("Completed", True)]
)
def test_a_run_that_ends_otherwise_is_not_started_again(
    sandbox: EC2Sandbox, status: str, interrupted: bool
) -> None:
    runs = started(sandbox, spot_plan(sandbox))
    end(sandbox, next(runs), status, interrupted=interrupted)
    assert list(runs) == []


def test_a_run_that_the_user_has_stopped_meanwhile_is_not_started_again(sandbox: EC2Sandbox) -> None:
    runs = started(sandbox, spot_plan(sandbox))
    run = next(runs)
    run.stop()
    end(sandbox, run)
    assert list(runs) == []


def test_an_instance_that_is_reclaimed_before_its_host_reports_is_replaced(sandbox: EC2Sandbox) -> None:
    runs = started(sandbox, spot_plan(sandbox))
    first = next(runs)
    sandbox.ec2.terminate_instances(InstanceIds=list(first.launch.instances))

    def describe(request: Request) -> FakeResponse:
        answer = sandbox.faulty.forward(request)
        return replace(answer, body=answer.body.replace(MOTOS_CODE, RECLAIMED))

    sandbox.faulty.fault("DescribeInstances", describe, None)
    assert first.wait().secondary_status == "Interrupted"
    assert next(runs).launch.attempt == 2


def test_without_capacity_for_the_next_attempt_its_fallbacks_are_tried(sandbox: EC2Sandbox) -> None:
    runs = started(sandbox, spot_plan(sandbox, "g5.xlarge", "g6.xlarge"))
    end(sandbox, next(runs))
    sandbox.refuse("InsufficientInstanceCapacity", "No Spot capacity.", 500, instance="g5.xlarge")
    second = next(runs)
    assert (second.launch.instance_type, second.launch.attempt) == ("g6.xlarge", 2)


def test_no_capacity_for_the_next_attempt_leaves_the_first_run_alone(sandbox: EC2Sandbox) -> None:
    plan = spot_plan(sandbox)
    runs = started(sandbox, plan)
    first = next(runs)
    end(sandbox, first)
    sandbox.refuse("InsufficientInstanceCapacity", "No Spot capacity.", 500)
    with pytest.raises(NoCapacity):
        next(runs)
    assert sandbox.instances() == []
    assert sandbox.objects("gpuproof/ec2/") == {plan.layout.launch}
    stored = read_launch(sandbox.aws, str(sandbox.bucket), first.id)
    assert stored is not None
    assert stored.continued_by == ""


def terminated() -> None:
    if threading.current_thread() is not threading.main_thread():
        raise Terminated
    os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupt_at_any_step_of_the_next_attempt_leaves_only_the_first_run(sandbox: EC2Sandbox) -> None:
    interrupted: list[str] = []
    for number in range(1, 9):
        plan = spot_plan(sandbox)
        armed: list[int] = []
        progress = RecordingProgress(lambda step, armed=armed: terminated() if step in armed else None)
        runs = started(sandbox, plan, progress)
        first = next(runs)
        end(sandbox, first)
        before, count = sandbox.objects(), len(progress.steps)
        armed.append(count + number)
        with sigterm_interrupts():
            try:
                next(runs)
            except KeyboardInterrupt:
                interrupted.append(progress.steps[count + number - 1])
            else:
                break
        assert sandbox.instances() == []
        assert sandbox.objects() == before
    assert interrupted[-1] == "launch the spot instance g5.xlarge in us-east-1b"
    assert len(interrupted) > 3


def _user_data(sandbox: EC2Sandbox, instance: str) -> str:
    found: Any = sandbox.ec2.describe_instance_attribute(InstanceId=instance, Attribute="userData")
    return base64.b64decode(found["UserData"]["Value"]).decode()
