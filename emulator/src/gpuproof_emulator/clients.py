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
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token
        self._lock = threading.Lock()
        self._get = lru_cache(maxsize=None)(self._create)

    def get(self, service: str, region: str) -> Any:
        """A client; thread-safe."""
        with self._lock:
            return self._get(service, region)

    def _create(self, service: str, region: str) -> Any:
        import boto3
        from botocore.config import Config

        session = boto3.Session(
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=self.token,
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
