"""Clients of several regions that share one boto3 session, so that each service's description is read once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from gpuproof.backends.aws.client import Aws
from gpuproof.settings import boto3_session


class RegionalClients:
    """One client for each region. Thread-safe.

    Reading the description of a service takes a tenth of a second; a further client of the same session takes some
    milliseconds.

    Args:
        session: creates the boto3 session; called once.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self, session: Callable[[], Any] = boto3_session, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._session = _SharedSession(session)
        self._sleep = sleep
        self._lock = threading.Lock()
        self._clients: dict[str, Aws] = {}

    @property
    def default_region(self) -> str:
        """The region of the AWS configuration.

        Raises:
            UsageError: none is set.
        """
        return Aws(self._session.opened).region

    def of(self, region: str) -> Aws:
        """The client of a region."""
        with self._lock:
            if region not in self._clients:
                self._clients[region] = Aws(lambda: self._session, sleep=self._sleep, region=region)
            return self._clients[region]


class _SharedSession:
    """A boto3 session whose clients may be created by several threads; boto3's own may not."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.RLock()
        self._session: Any = None

    def client(self, *arguments: Any, **options: Any) -> Any:
        with self._lock:
            return self.opened().client(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            return getattr(self.opened(), name)

    def opened(self) -> Any:
        """The boto3 session itself."""
        with self._lock:
            if self._session is None:
                self._session = self._make()
            return self._session
