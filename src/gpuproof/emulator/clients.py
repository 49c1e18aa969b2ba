"""The emulator's own use of what it emulates: S3 and logs, over HTTP like everybody else's."""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

USER_AGENT = "gpuproof-emulator"
"""Requests that call themselves so are the emulator's own: no fault strikes them."""


class Clients:
    """boto3 clients of the emulator itself, made once for each service and region.

    Args:
        url: where it listens.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._get = lru_cache(maxsize=None)(self._make)

    def get(self, service: str, region: str) -> Any:
        """A client; safe to use from several threads."""
        with self._lock:
            return self._get(service, region)

    def _make(self, service: str, region: str) -> Any:
        import boto3
        from botocore.config import Config

        session = boto3.Session(
            aws_access_key_id="emulator",
            aws_secret_access_key="emulator",  # noqa: S106 - nobody checks it
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
