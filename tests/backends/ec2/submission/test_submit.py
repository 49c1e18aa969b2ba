"""An instance that EC2 ends before it starts, for lack of capacity, is followed by one elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.ec2.submit import submit
from gpuproof.backends.errors import NoCapacity
from support.ec2_sandbox import EC2Sandbox
from support.faulty_aws import FakeResponse, Request, query_error
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow

MOTOS_CODE = b"Client.UserInitiatedShutdown"
LACKING = b"Server.InsufficientInstanceCapacity"


def end_for_lack_of_capacity(sandbox: EC2Sandbox, run: EC2Run) -> None:
    """Terminate its instance, as EC2 does when it finds no capacity for a pending instance."""
    sandbox.ec2.terminate_instances(InstanceIds=list(run.launch.instances))

    def describe(request: Request) -> FakeResponse:
        answer = sandbox.faulty.forward(request)
        assert MOTOS_CODE in answer.body
        return replace(answer, body=answer.body.replace(MOTOS_CODE, LACKING))

    sandbox.faulty.fault("DescribeInstances", describe, None)


def started(sandbox: EC2Sandbox, plan: Any, progress: RecordingProgress) -> Iterator[EC2Run]:
    return submit(plan, sandbox.aws, progress, sleep=sandbox.slept.append)


def test_a_run_without_capacity_is_followed_by_one_in_the_next_zone_and_type(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan("g5.xlarge", "g6.xlarge", zones=sandbox.zones[:2])
    progress = RecordingProgress()
    seen: list[tuple[str, str]] = []
    runs: list[EC2Run] = []
    for run in started(sandbox, plan, progress):
        seen.append((run.launch.instance_type, run.launch.zone))
        runs.append(run)
        if len(runs) == 3:
            break
        end_for_lack_of_capacity(sandbox, run)
        assert run.wait().status == "Failed"
    assert seen == [("g5.xlarge", "us-east-1a"), ("g5.xlarge", "us-east-1b"), ("g6.xlarge", "us-east-1a")]
    assert progress.notes == [
        "EC2 has no capacity for g5.xlarge in us-east-1a; trying g5.xlarge in us-east-1b",
        "EC2 has no capacity for g5.xlarge in us-east-1b; trying g6.xlarge in us-east-1a",
    ]
    assert len({run.id for run in runs}) == 3
    # Of the first two, nothing is left.
    assert [instance["InstanceType"] for instance in sandbox.instances()] == ["g6.xlarge"]
    assert {key for key in sandbox.objects("gpuproof/runs/") if runs[2].id not in key} == set()
    assert sandbox.objects("gpuproof/ec2/") == {f"gpuproof/ec2/{runs[2].id}.json"}


def test_no_capacity_in_the_last_zone_is_reported_with_all_that_was_tried(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan(zones=sandbox.zones[:2])
    sandbox.refuse("InsufficientInstanceCapacity", "Insufficient capacity.", 500, zone="us-east-1a")
    with pytest.raises(NoCapacity) as raised:
        for run in started(sandbox, plan, RecordingProgress()):
            end_for_lack_of_capacity(sandbox, run)
            run.wait()
    assert [(attempt.zone, attempt.code) for attempt in raised.value.tried] == [
        ("us-east-1a", "InsufficientInstanceCapacity"),
        ("us-east-1b", "Server.InsufficientInstanceCapacity"),
    ]
    sandbox.assert_nothing_left(plan, uploads=True)


def test_a_run_that_ends_otherwise_is_the_last(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan("g5.xlarge", "g6.xlarge")
    runs: list[EC2Run] = []
    for run in started(sandbox, plan, RecordingProgress()):
        sandbox.ec2.terminate_instances(InstanceIds=list(run.launch.instances))
        run.wait()
        runs.append(run)
    assert len(runs) == 1
    assert sandbox.objects("gpuproof/ec2/") == {plan.layout.launch}


def test_a_run_whose_instance_never_reports_is_ended_and_not_repeated(
    sandbox: EC2Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUPROOF_FIRST_REPORT_SECONDS", "0.001")
    runs = [
        (run, run.wait())
        for run in started(sandbox, sandbox.plan("g5.xlarge", "g6.xlarge"), RecordingProgress())
    ]
    ((run, record),) = runs
    assert (record.status, record.document["failure_code"]) == ("Failed", "NoSignOfLife")
    assert sandbox.instances() == []
    assert run.launch.silent


def test_a_detached_run_stays(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    runs = submit(plan, sandbox.aws, RecordingProgress(), sleep=sandbox.slept.append)
    run = next(iter(runs))
    runs.close()  # type: ignore[attr-defined]  # it is a generator
    (instance,) = sandbox.instances()
    assert run.launch.instances == (instance["InstanceId"],)


def test_an_interrupt_before_the_caller_has_the_run_terminates_it(sandbox: EC2Sandbox) -> None:
    plan = sandbox.plan()
    runs = submit(plan, sandbox.aws, RecordingProgress(), sleep=sandbox.slept.append)
    next(iter(runs))
    # EC2 may not know the new instance everywhere yet.
    sandbox.faulty.fault("TerminateInstances", query_error("InvalidInstanceID.NotFound"), times=2)
    with pytest.raises(KeyboardInterrupt):
        runs.throw(KeyboardInterrupt())  # type: ignore[attr-defined]  # it is a generator
    assert sandbox.instances() == []
