"""The IAM policy for `gpuproof audit`, from `data/actions.csv`: the requests that it makes, which all only read.

Without the statement `AuditCode`, it reads no files in S3: `gpuproof audit JOB` then checks no code.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.util.csv_table import read_rows

_TABLE = Path(__file__).parent / "data" / "actions.csv"
HINT = "`gpuproof iam policy --on audit` prints the permissions that audit needs"
"""What to type if a permission is missing."""

_SIDS = {"read": "AuditRead", "code": "AuditCode"}


class AuditAction(NamedTuple):
    """The permission for one request.

    Attributes:
        group: `read`, or `code` for files in S3.
        service: the boto3 service name.
        operation: the boto3 method.
        action: the IAM action.
    """

    group: str
    service: str
    operation: str
    action: str


@cache
def read_actions() -> tuple[AuditAction, ...]:
    """All rows of the table."""
    return tuple(
        AuditAction(row["group"], row["service"], row["operation"], row["action"])
        for row in read_rows(_TABLE)
    )


def audit_policy() -> dict[str, Any]:
    """The policy."""
    statements = [
        {
            "Sid": sid,
            "Effect": "Allow",
            "Action": list(dict.fromkeys(row.action for row in read_actions() if row.group == group)),
            "Resource": ["*"],
        }
        for group, sid in _SIDS.items()
    ]
    return {"Version": "2012-10-17", "Statement": statements}
