"""Tables of the requests that a command makes, `data/actions.csv`, and the IAM policies that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from gpuproof.util.csv_table import read_rows


class Action(NamedTuple):
    """The permission for one request.

    Attributes:
        group: the statement of the policy that it belongs to, such as `read`.
        service: the boto3 service name.
        operation: the boto3 method.
        action: the IAM action.
    """

    group: str
    service: str
    operation: str
    action: str


@cache
def read_table(table: Path) -> tuple[Action, ...]:
    """All rows of a table."""
    return tuple(
        Action(row["group"], row["service"], row["operation"], row["action"]) for row in read_rows(table)
    )


def policy_of(table: Path, statements: Mapping[str, str]) -> dict[str, Any]:
    """The policy that allows the actions of a table, on all resources.

    Args:
        statements: by group, the statement's id.
    """
    rows = read_table(table)
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": sid,
                "Effect": "Allow",
                "Action": list(dict.fromkeys(row.action for row in rows if row.group == group)),
                "Resource": ["*"],
            }
            for group, sid in statements.items()
        ],
    }
