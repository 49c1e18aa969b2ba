"""The IAM policy for `gpuproof cleanup` and `gpuproof cost`: a statement that only reads, one that deletes, one for the bill.

`data/actions.csv` lists each request with the action that it requires. They concern the whole account, so that a resource
cannot be narrowed to GPUproof's own; without the statement `CleanupDelete`, the policy only reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuproof.account.action_table import Action, policy_of, read_table
from gpuproof.backends.aws import AwsRefused

_TABLE = Path(__file__).parent / "data" / "actions.csv"
HINT = "`gpuproof iam policy --cleanup` prints the permissions that cleanup and cost need"
"""What to type if a permission is missing."""

_SIDS = {"read": "CleanupRead", "bill": "CostExplorer", "delete": "CleanupDelete"}


def read_actions() -> tuple[Action, ...]:
    """All rows of the table."""
    return read_table(_TABLE)


def lacks_permission(error: BaseException | None) -> bool:
    """Whether an error, or what caused it, is that a permission is missing."""
    if isinstance(error, AwsRefused):
        return error.is_permission
    return error is not None and lacks_permission(error.__cause__)


def cleanup_policy() -> dict[str, Any]:
    """The policy."""
    return policy_of(_TABLE, _SIDS)
