"""AWS clients for several regions, created once each."""

from collections.abc import Callable
from threading import Lock
from typing import Any

CONNECT_TIMEOUT_S = 10
READ_TIMEOUT_S = 60


class Clients:
    """boto3 clients by service and region, in botocore's standard retry mode: three attempts, or `AWS_MAX_ATTEMPTS`.

    Args:
        session: creates the boto3 session; called once.
    """

    def __init__(self, session: Callable[[], Any]) -> None:
        self._make_session = session
        self._session: Any = None
        self._made: dict[tuple[str, str], Any] = {}
        # A boto3 session must not create two clients at once; the clients themselves are thread-safe.
        self._lock = Lock()

    def get(self, service: str, region: str) -> Any:
        """Returns the client of a service in a region."""
        with self._lock:
            if (service, region) not in self._made:
                self._made[service, region] = self._client(service, region)
            return self._made[service, region]

    def default_region(self) -> str | None:
        """Returns the region of the environment or the profile."""
        with self._lock:
            return self._opened().region_name

    def has_credentials(self) -> bool:
        """Whether any credentials are configured, valid or not."""
        with self._lock:
            return self._opened().get_credentials() is not None

    def _client(self, service: str, region: str) -> Any:
        from botocore.config import Config  # with boto3, 0.2 s: only for a refresh

        config = Config(
            retries={"mode": "standard"},
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
        )
        return self._opened().client(service, region_name=region, config=config)

    def _opened(self) -> Any:
        if self._session is None:
            self._session = self._make_session()
        return self._session
