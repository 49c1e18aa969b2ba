"""The IAM policy for `gpuproof audit`, from `data/actions.csv`: the requests that it makes, which all only read.

Without the statement `AuditCode`, it reads no files in S3: `gpuproof audit JOB` then checks no code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof.account.action_table import Action, policy_of, read_table

_TABLE = Path(__file__).parent / "data" / "actions.csv"
HINT = "`gpuproof iam policy --on audit` prints the permissions that audit needs"
"""What to type if a permission is missing."""

_SIDS = {"read": "AuditRead", "code": "AuditCode"}


def read_actions() -> tuple[Action, ...]:
    """All rows of the table."""
    return read_table(_TABLE)


def audit_policy() -> dict[str, Any]:
    """The policy."""
    return policy_of(_TABLE, _SIDS)
