"""boto3 clients with which the emulator itself uses its S3, IAM, STS and CloudWatch Logs, over HTTP."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

from gpuproof_emulator.auth.token import ACCESS_KEY_ID

USER_AGENT = "gpuproof-emulator"
"""User agent of the emulator's own requests, into which no fault is injected."""


class Clients:
    """boto3 clients for the emulator itself, one for each service and region.

    Args:
        url: where it listens.
        token: its token.
        as_roles: whether what a service does on behalf of a role is requested with the role's credentials.
    """

    def __init__(self, url: str, token: str, *, as_roles: bool = False) -> None:
        self.url = url
        self.token = token
        self._as_roles = as_roles
        self._lock = threading.Lock()
        self._get = lru_cache(maxsize=None)(self._create)
        self._get_of_role = lru_cache(maxsize=None)(self._create_of_role)

    def get(self, service: str, region: str) -> Any:
        """A client; thread-safe."""
        with self._lock:
            return self._get(service, region)

    def of_role(self, role: str | None, service: str, region: str) -> Any:
        """A client for what a service does with a role of the user: the emulator's own, unless IAM is enforced.

        Args:
            role: its ARN; None for the emulator's own client.
        """
        if not self._as_roles or not role:
            return self.get(service, region)
        with self._lock:
            return self._get_of_role(role, service, region)

    def forget_roles(self) -> None:
        """Forget the credentials of all roles."""
        self._get_of_role.cache_clear()

    def _create(self, service: str, region: str) -> Any:
        return self._client(service, region, ACCESS_KEY_ID, self.token, None)

    def _create_of_role(self, role: str, service: str, region: str) -> Any:
        sts = self._get("sts", region)
        keys = sts.assume_role(RoleArn=role, RoleSessionName="SageMaker")["Credentials"]
        return self._client(
            service, region, keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"]
        )

    def _client(self, service: str, region: str, key: str, secret: str, token: str | None) -> Any:
        import boto3
        from botocore.config import Config

        session = boto3.Session(
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=token,
            region_name=region,
        )
        config = Config(
            user_agent=USER_AGENT,
            max_pool_connections=32,
            s3={"addressing_style": "path"},
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        return session.client(service, endpoint_url=self.url, config=config)
