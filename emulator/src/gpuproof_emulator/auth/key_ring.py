"""Finds the secret of an access key: the emulator's own, those of IAM users and those of assumed roles."""

from __future__ import annotations

import hmac
from typing import Any

from botocore.credentials import Credentials

from gpuproof_emulator.auth.token import ACCESS_KEY_ID


class KeyRing:
    """All valid credentials of an emulator.

    Args:
        token: secret of the emulator's own access key.
    """

    def __init__(self, token: str) -> None:
        self._own = Credentials(ACCESS_KEY_ID, token)

    def find(self, access_key: str) -> Credentials | None:
        """The credentials with an access key id, or None if there are none."""
        if access_key == ACCESS_KEY_ID:
            return self._own
        # moto loads slowly, and is loaded when the emulator starts.
        from moto.iam.models import iam_backends
        from moto.sts.models import sts_backends

        for role in (item for backend in _backends(sts_backends) for item in list(backend.assumed_roles)):
            if role.access_key_id == access_key:
                return Credentials(access_key, role.secret_access_key, role.session_token)
        for user in (item for backend in _backends(iam_backends) for item in list(backend.users.values())):
            for key in list(user.access_keys):
                if key.access_key_id == access_key and key.status == "Active":
                    return Credentials(access_key, key.secret_access_key)
        return None

    def accepts_session_token(self, credentials: Credentials, session_token: str) -> bool:
        """Whether a request may carry this session token; the emulator's own key takes any, as of an AWS profile."""
        if credentials is self._own:
            return True
        return hmac.compare_digest((credentials.token or "").encode(), session_token.encode())


def _backends(services: Any) -> list[Any]:
    """moto's backends of all accounts and partitions."""
    return [backend for account in list(services.values()) for backend in list(account.values())]
