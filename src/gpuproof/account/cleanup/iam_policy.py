"""The IAM policy for `gpuproof cleanup` and `gpuproof cost`: a statement that only reads, one that deletes, one for the bill.

`data/actions.csv` lists each request with the action that it requires. They concern the whole account, so that a resource
cannot be narrowed to GPUproof's own; without the statement `CleanupDelete`, the policy only reads.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.backends.aws import AwsRefused
from gpuproof.util.csv_table import read_rows

_TABLE = Path(__file__).parent / "data" / "actions.csv"
HINT = "`gpuproof iam policy --cleanup` prints the permissions that cleanup and cost need"
"""What to type if a permission is missing."""

_SIDS = {"read": "CleanupRead", "bill": "CostExplorer", "delete": "CleanupDelete"}


class Row(NamedTuple):
    """The permission for one request.

    Attributes:
        group: `read`, `delete` or `bill`.
        service: the boto3 service name.
        operation: the boto3 method.
        action: the IAM action.
    """

    group: str
    service: str
    operation: str
    action: str


@cache
def read_actions() -> tuple[Row, ...]:
    """All rows of the table."""
    return tuple(
        Row(row["group"], row["service"], row["operation"], row["action"]) for row in read_rows(_TABLE)
    )


def lacks_permission(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is that a permission is missing."""
    if isinstance(error, AwsRefused):
        return error.is_permission
    return error is not None and lacks_permission(error.__cause__)


def cleanup_policy() -> dict[str, Any]:
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
