"""What the role of a schedule may do, by the actions that its policies allow and deny.

Resources and conditions of statements are not evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from gpuproof_emulator.clients import Clients
from gpuproof_emulator.protocol import AwsError


def check_permission(clients: Clients, role: str, action: str) -> None:
    """Reject an action that no policy of a role allows, or that one denies.

    Args:
        role: its ARN.
        action: such as `sagemaker:DeleteEndpoint`.

    Raises:
        AwsError: the role has no permission, or does not exist.
    """
    name = role.rpartition("/")[2]
    effects = {
        statement["Effect"]
        for statement in _statements(clients.get("iam", "us-east-1"), name)
        if any(fnmatchcase(action.lower(), pattern.lower()) for pattern in _as_list(statement.get("Action")))
    }
    if effects != {"Allow"}:
        raise AwsError(
            "AccessDeniedException",
            f"User: {role} is not authorized to perform: {action} because no identity-based policy allows the {action}"
            " action",
        )


def _statements(iam: Any, name: str) -> Iterator[dict[str, Any]]:
    try:
        inline = iam.list_role_policies(RoleName=name)["PolicyNames"]
        attached = iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
    except iam.exceptions.NoSuchEntityException:
        return
    documents = [iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"] for policy in inline]
    for policy in attached:
        arn = policy["PolicyArn"]
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        found = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]
        documents.append(found["Document"])
    for document in documents:
        parsed = json.loads(document) if isinstance(document, str) else document
        yield from _as_list(parsed.get("Statement"))


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
