"""Requests to STS and IAM: the caller's identity, and roles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from gpuproof.backends.aws.session import AwsSession

NO_SUCH_ENTITY = ("NoSuchEntity",)
"""IAM's error code for a role or instance profile that does not exist."""


@dataclass(frozen=True)
class Caller:
    """The identity of the credentials.

    Args:
        account: 12 digits.
        arn: such as `arn:aws:sts::123456789012:assumed-role/Engineer/ann`.
        user_id: the user id that STS returns.
    """

    account: str
    arn: str
    user_id: str

    @property
    def is_known(self) -> bool:
        """Whether it is an account, and not the placeholder of a dry run without credentials."""
        return self.account.isdigit()

    @property
    def partition(self) -> str:
        """`aws`, `aws-cn`, `aws-us-gov`."""
        return self.arn.split(":")[1]


@dataclass(frozen=True)
class Role:
    """A role.

    Args:
        name: its name, without the path.
        trusted_services: the services that may assume it, such as `sagemaker.amazonaws.com`.
    """

    arn: str
    name: str
    trusted_services: tuple[str, ...]


class IdentityCalls(AwsSession):
    """The client's methods for STS and IAM."""

    def caller(self) -> Caller:
        """The identity of the credentials."""
        answer = self._request("sts", "get_caller_identity", {})
        return Caller(answer["Account"], answer["Arn"], answer["UserId"])

    def role(self, name_or_arn: str) -> Role | None:
        """A role of this account; None if it does not exist."""
        name = name_or_arn.rpartition("/")[2]
        answer = self._find("iam", "get_role", {"RoleName": name}, f"role {name}", NO_SUCH_ENTITY)
        return read_role(answer["Role"]) if answer else None

    def roles(self) -> Iterator[Role]:
        """All roles of the account."""
        yield from map(read_role, self._items("iam", "list_roles", "Roles", {}))


def trusted_services(document: Mapping[str, Any]) -> tuple[str, ...]:
    """The services that may assume a role, according to its trust policy.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
    """
    allowed: list[str] = []
    denied: set[str] = set()
    for statement in _as_list(document.get("Statement", ())):
        if not any(fnmatchcase("sts:AssumeRole", action) for action in _as_list(statement.get("Action", ()))):
            continue
        principal = statement.get("Principal", {})
        services = _as_list(principal.get("Service", ())) if isinstance(principal, Mapping) else ()
        if statement.get("Effect") == "Allow":
            allowed.extend(services)
        else:
            denied.update(services)
    return tuple(service for service in dict.fromkeys(allowed) if service not in denied)


def read_role(answer: Mapping[str, Any]) -> Role:
    """A role from IAM's description of it."""
    document = answer.get("AssumeRolePolicyDocument") or {}
    if isinstance(document, str):
        document = json.loads(unquote(document))
    return Role(answer["Arn"], answer["RoleName"], trusted_services(document))


def _as_list(value: Any) -> Iterable[Any]:
    """A list, which IAM omits around a single value."""
    return value if isinstance(value, list | tuple) else (value,)
