"""The IAM policy of `gpuproof cleanup` and `gpuproof cost`, compared with the operations that they call."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gpuproof
from gpuproof.account.cleanup.actions import _CALLS, calls_for
from gpuproof.account.cleanup.iam_policy import cleanup_policy, read_actions
from gpuproof.account.cleanup.resource import JOBS, Action, Kind, Resource
from gpuproof.cli.main import main
from gpuproof.errors import ExitCode

_ACTIONS = {
    Kind.NOTEBOOK: (Action.STOP, Action.DELETE),
    Kind.INSTANCE: (Action.STOP, Action.TERMINATE),
    Kind.WARM_POOL: (Action.RELEASE,),
    **dict.fromkeys(JOBS, (Action.STOP,)),
}
_DETAILS = {"configs": "c", "models": "m", "schedules": "g/s", "variants": "v", "files": "s3://b/k"}


def test_deletions_are_exactly_the_calls_of_all_kinds() -> None:
    called = {
        (call.service, call.operation)
        for kind in _CALLS
        for action in _ACTIONS.get(kind, (Action.DELETE,))
        for call in calls_for(Resource(kind, "us-east-1", "r", action=action, details=_DETAILS))
    }
    assert called == {(row.service, row.operation) for row in read_actions() if row.group == "delete"}


def test_every_request_of_the_inventory_is_listed() -> None:
    services = Path(gpuproof.__file__).parent / "backends" / "aws" / "services"
    listed = {row.operation for row in read_actions()}
    for name in ("inventory.py", "cloudwatch_metrics.py", "cost_explorer.py"):
        text = (services / name).read_text()
        named = set(re.findall(r'"((?:list|describe|get|search)(?:_[a-z]+)*)"', text))
        assert named, name
        assert named <= listed, name


def test_nothing_but_reading_is_allowed_without_the_deleting_statement() -> None:
    for item in cleanup_policy()["Statement"]:
        if item["Sid"] != "CleanupDelete":
            assert all(re.search(r":(List|Describe|Get|Search)", action) for action in item["Action"])


def test_actions_belong_to_their_operation() -> None:
    for row in read_actions():
        word = "".join(part.capitalize() for part in row.operation.split("_"))
        if row.service != "s3":
            assert row.action.partition(":")[2] == word


def test_the_policy_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["iam", "policy", "--cleanup"]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert json.loads(out) == cleanup_policy()
    assert "CleanupDelete" in err
