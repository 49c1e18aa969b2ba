"""The log group of all runs is created once, with a retention, and never in the way of a launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.requests.log_group import LOG_GROUP, plan_log_group
from support.ec2_sandbox import EC2Sandbox
from support.sagemaker_sandbox import RecordingProgress

pytestmark = pytest.mark.slow


@pytest.fixture
def logs(sandbox: EC2Sandbox) -> Iterator[Any]:
    """A boto3 client; the group does not exist."""
    client = sandbox.emulator.client("logs")
    if groups(client):
        client.delete_log_group(logGroupName=LOG_GROUP)
    yield client
    if groups(client):
        client.delete_log_group(logGroupName=LOG_GROUP)


def groups(client: Any) -> list[int | None]:
    """The retention of the group in days; empty if it does not exist."""
    found = client.describe_log_groups(logGroupNamePrefix=LOG_GROUP)["logGroups"]
    return [group.get("retentionInDays") for group in found if group["logGroupName"] == LOG_GROUP]


def plan(sandbox: EC2Sandbox) -> EC2Plan:
    return replace(sandbox.plan(), log_calls=plan_log_group(sandbox.aws))


def test_the_first_launch_creates_the_group_with_a_retention(sandbox: EC2Sandbox, logs: Any) -> None:
    first = plan(sandbox)
    assert [call.operation for call in first.calls() if call.service == "logs"] == [
        "create_log_group",
        "put_retention_policy",
    ]
    sandbox.submit(first)
    assert groups(logs) == [30]
    assert plan(sandbox).log_calls == ()


def test_the_retention_that_the_user_has_set_stays(sandbox: EC2Sandbox, logs: Any) -> None:
    logs.create_log_group(logGroupName=LOG_GROUP)
    logs.put_retention_policy(logGroupName=LOG_GROUP, retentionInDays=365)
    sandbox.submit(plan(sandbox))
    assert groups(logs) == [365]


def test_a_group_that_another_run_creates_meanwhile_is_used(sandbox: EC2Sandbox, logs: Any) -> None:
    planned = plan(sandbox)
    logs.create_log_group(logGroupName=LOG_GROUP)
    progress = RecordingProgress()
    sandbox.submit(planned, progress)
    assert groups(logs) == [30]
    assert progress.notes == []


@pytest.mark.parametrize("operation", ["CreateLogGroup", "PutRetentionPolicy"])
def test_a_refusal_is_a_note(sandbox: EC2Sandbox, logs: Any, operation: str) -> None:
    planned = plan(sandbox)
    sandbox.emulator.faults(f"access-denied,service=logs,operation={operation}")
    progress = RecordingProgress()
    launched = sandbox.submit(planned, progress)
    assert launched.record.instances
    (note,) = progress.notes
    assert note.startswith(f"the log group {LOG_GROUP} keeps its lines until you delete them: ")


def test_who_may_not_look_leaves_the_group_to_the_instances(sandbox: EC2Sandbox, logs: Any) -> None:
    sandbox.emulator.faults("access-denied,service=logs,operation=DescribeLogStreams")
    assert plan_log_group(sandbox.aws) == ()
