"""The IAM actions that `gpuproof setup` needs, from `data/actions.csv`, and the policy that allows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.util.csv_table import read_rows

_TABLE = Path(__file__).parent / "data" / "actions.csv"


@cache
def read_actions() -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The actions of each request, by the boto3 service name and the method."""
    return {(row["service"], row["operation"]): tuple(row["actions"].split()) for row in read_rows(_TABLE)}


def actions_of(calls: Iterable[ApiCall]) -> tuple[str, ...]:
    """The actions that some calls need, each once."""
    table = read_actions()
    return tuple(dict.fromkeys(action for call in calls for action in table[call.service, call.operation]))


def actions_for(operation: str) -> tuple[str, ...]:
    """The actions of a request, by AWS's name of the operation, such as `CreateRole`; none if it is not one of setup's."""
    return next(
        (
            actions
            for (_, method), actions in read_actions().items()
            if method.replace("_", "").lower() == operation.lower()
        ),
        (),
    )


def setup_policy() -> dict[str, Any]:
    """The policy of the person who runs `gpuproof setup`: it reads, creates and removes roles, so it is an administrator's."""
    actions = sorted({action for found in read_actions().values() for action in found})
    statement = {"Sid": "Setup", "Effect": "Allow", "Action": actions, "Resource": ["*"]}
    return {"Version": "2012-10-17", "Statement": [statement]}
