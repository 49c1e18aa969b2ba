"""The IAM policy of `gpuproof audit`: it only reads, and `gpuproof iam policy --on audit` prints it."""

from __future__ import annotations

import json
import re

import pytest

from gpuproof.account.audit.iam_policy import audit_policy, read_actions
from gpuproof.cli.main import main
from gpuproof.errors import ExitCode


def test_every_action_only_reads() -> None:
    for statement in audit_policy()["Statement"]:
        assert all(re.search(r":(List|Describe|Get|Search)", action) for action in statement["Action"])


def test_actions_belong_to_their_operation() -> None:
    for row in read_actions():
        word = "".join(part.capitalize() for part in row.operation.split("_"))
        assert row.service == "s3" or row.action.partition(":")[2] == word


def test_the_policy_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["iam", "policy", "--on", "audit"]) == ExitCode.OK
    out, err = capsys.readouterr()
    assert json.loads(out) == audit_policy()
    assert "gpuproof-audit" in err


def test_there_is_no_role_for_an_audit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["iam", "policy", "--on", "audit", "--trust"]) == ExitCode.USAGE
    assert "only the policy of users" in capsys.readouterr().err
