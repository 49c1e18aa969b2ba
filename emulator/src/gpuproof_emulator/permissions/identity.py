"""Who signed a request, and the policies of that user or role in moto's IAM."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from gpuproof_emulator.protocol import ACCOUNT

_PARTITION = "aws"


@dataclass(frozen=True)
class Identity:
    """A user, or a session of a role.

    Args:
        kind: `user` or `role`.
        name: of the user or role.
        arn: as errors name it.
        values: of the condition keys that depend only on who makes a request, by their name in lower case.
    """

    kind: str
    name: str
    arn: str
    values: Mapping[str, tuple[str, ...]]

    def policies(self) -> list[Mapping[str, Any]]:
        """All policy documents that are attached to it, or to a group of the user; none if it does not exist any more."""
        from moto.iam.models import iam_backends  # loads slowly

        backend = iam_backends[ACCOUNT][_PARTITION]
        documents = _of_user(backend, self.name) if self.kind == "user" else _of_role(backend, self.name)
        return [_parse(document) for document in documents]


def identity_of(access_key: str) -> Identity | None:
    """The user or session of an access key that IAM or STS issued; None for the emulator's own."""
    from moto.iam.models import iam_backends
    from moto.sts.models import sts_backends

    for session in list(sts_backends[ACCOUNT][_PARTITION].assumed_roles):
        if session.access_key_id == access_key:
            return role_identity(session.role_arn, session.session_name)
    for user in list(iam_backends[ACCOUNT][_PARTITION].users.values()):
        if any(key.access_key_id == access_key for key in list(user.access_keys)):
            values = {**_account_values(user.arn, "User"), "aws:username": user.name, "aws:userid": user.id}
            return Identity("user", user.name, user.arn, _as_tuples(values))
    return None


def role_identity(role: str, session: str) -> Identity:
    """A session of a role.

    Args:
        role: its ARN.
        session: the session's name.
    """
    name = role.rpartition("/")[2]
    arn = f"arn:{_PARTITION}:sts::{ACCOUNT}:assumed-role/{name}/{session}"
    values = {**_account_values(role, "AssumedRole"), "aws:userid": f"{name}:{session}"}
    return Identity("role", name, arn, _as_tuples(values))


def _account_values(arn: str, kind: str) -> dict[str, str]:
    return {"aws:principalarn": arn, "aws:principalaccount": ACCOUNT, "aws:principaltype": kind}


def _as_tuples(values: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {key: (value,) for key, value in values.items()}


def _of_user(backend: Any, name: str) -> Iterator[str]:
    user = backend.users.get(name)
    if user is None:
        return
    yield from user.policies.values()
    yield from _default_versions(user.managed_policies.values())
    for group in backend.get_groups_for_user(name):
        yield from group.policies.values()
        yield from _default_versions(group.managed_policies.values())


def _of_role(backend: Any, name: str) -> Iterator[str]:
    for role in list(backend.roles.values()):
        if role.name == name:
            yield from role.policies.values()
            yield from _default_versions(role.managed_policies.values())


def _default_versions(policies: Iterable[Any]) -> Iterator[str]:
    for policy in policies:
        yield next(version.document for version in policy.versions if version.is_default)


@lru_cache(maxsize=512)
def _parse(document: str) -> Mapping[str, Any]:
    return json.loads(document)
