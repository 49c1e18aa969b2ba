"""How any of AWS's services is asked: clients made once, retries, waiting out throttling, errors in words."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

from gpuproof.backends.aws.error_context import Circumstances, unknown_region
from gpuproof.backends.aws.error_translation import Asked, in_words
from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable
from gpuproof.backends.aws.s3_object import CONNECTIONS
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.settings import boto3_session
from gpuproof.version import __version__

THROTTLED_SECONDS = 120.0
"""How long throttling is waited out, beyond botocore's own attempts."""

FAULT_SECONDS = 5.0
"""How long a fault on AWS's side is waited out, beyond botocore's own attempts."""

UNREACHABLE_SECONDS = 30.0
"""How long a service that has answered before is waited for when it cannot be reached any more."""

_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_LONGEST_WAIT = 20.0
_MAKING = ("create_", "run_", "request_", "import_")
"""How operations begin that make something anew each time they are asked."""

_TOKENS = {
    "s3": ("ContinuationToken", "NextContinuationToken"),
    "sagemaker": ("NextToken", "NextToken"),
    "logs": ("nextToken", "nextToken"),
    "iam": ("Marker", "Marker"),
    "resourcegroupstaggingapi": ("PaginationToken", "PaginationToken"),
}
"""Where each service takes the place to go on from, and where it tells it.

Source: botocore's `paginators-1.json` of each.
"""

T = TypeVar("T")


class Asking:
    """AWS, asked through boto3 in its standard retry mode: three attempts, or AWS_MAX_ATTEMPTS.

    After these, throttling is waited out for two minutes, and a service that answered before is waited for half a
    minute when the connection is lost. What makes something is asked once: botocore would ask again after a lost
    connection, whether or not the first request had arrived.

    Args:
        session: makes the boto3 session; called once.
        sleep: waits that many seconds.
        clock: seconds since the epoch.
        region: the region to ask; the session's own if None.
        notify: told in a sentence whenever AWS is waited for.

    Every method raises NoCredentials, AwsRefused or AwsUnreachable where AWS does not do what it is asked.
    """

    def __init__(
        self,
        session: Callable[[], Any] = boto3_session,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        region: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self._make_session = session
        self._sleep = sleep
        self._clock = clock
        self._asked_region = region
        self._notify = notify
        # boto3 sessions may be used by one thread at a time, clients by many.
        self._lock = threading.RLock()
        self._session: Any = None
        self._clients: dict[tuple[str, bool], Any] = {}
        self._answered: set[str] = set()

    @property
    def region(self) -> str:
        """The region that is asked.

        Raises:
            UsageError: none is set.
        """
        found = self._region()
        if found is None:
            raise UsageError(
                "No AWS region is set.",
                remedy="export AWS_REGION=us-east-1 (or where your data lies), or --region us-east-1",
            )
        return found

    @property
    def region_flag(self) -> str:
        """` --region us-west-2` where a command without it would ask another region than this client; else empty."""
        asked = self._asked_region
        return "" if asked is None or asked == self._opened().region_name else f" --region {asked}"

    def unknown_region(self) -> str | None:
        """None where boto3 knows the region for SageMaker; else the name that is most like it, empty without one."""
        self._opened()
        unknown = unknown_region("sagemaker", self._circumstances())
        return unknown["near_region"] if unknown else None

    def call(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        """Ask for one operation.

        Args:
            service: as boto3 names it, such as `sagemaker`.
            operation: as boto3 names it, such as `create_training_job`.
            request: its members, as AWS names them.

        Raises:
            AwsUnreachable: with `maybe_done` where the connection was lost after a request that makes something was
                sent: look whether it is there before asking again.
        """
        return self._ask(service, operation, request)

    def _ask(
        self, service: str, operation: str, request: dict[str, Any], what: str | None = None
    ) -> dict[str, Any]:
        once = operation.startswith(_MAKING)

        def attempt() -> dict[str, Any]:
            client = self._client(service, once=once)
            with self._said(service, client.meta.method_to_api_mapping[operation], what, once=once):
                return getattr(client, operation)(**request)

        return self._patiently(service, attempt, once=once)

    def _patiently(self, service: str, attempt: Callable[[], T], *, once: bool = False) -> T:
        """Try until it is done or patience ends; `once`: only what was certainly not done is tried again."""
        waited, tries = 0.0, 0
        while True:
            try:
                result = attempt()
            except (AwsRefused, AwsUnreachable) as error:
                bound = _patience(error, once=once, answered=service in self._answered)
                if waited >= bound:
                    raise
                seconds = _backoff(tries)
                if self._notify is not None:
                    self._notify(f"{error.message} Trying again in {seconds:.0f} s.")
                self._sleep(seconds)
                waited, tries = waited + seconds, tries + 1
            else:
                self._answered.add(service)
                return result

    def _pages(
        self, service: str, operation: str, request: dict[str, Any], what: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """All pages of a listing."""
        takes, tells = _TOKENS[service]
        asked = dict(request)
        while True:
            page = self._ask(service, operation, asked, what)
            yield page
            token = page.get(tells)
            if not token or token == asked.get(takes):
                return
            asked[takes] = token

    @contextlib.contextmanager
    def _said(
        self, service: str, operation: str, what: str | None = None, *, once: bool = False
    ) -> Generator[None, None, None]:
        """Turn what botocore raises into words."""
        try:
            yield
        except GPUproofError:
            raise
        except Exception as error:
            told = in_words(error, Asked(service, operation, what, once), self._circumstances())
            if told is None:
                raise
            raise told from error

    def _client(self, service: str, *, once: bool = False) -> Any:
        with self._lock:
            if (service, once) not in self._clients:
                with self._said(service, ""):
                    self._clients[service, once] = self._make_client(service, once)
            return self._clients[service, once]

    def _make_client(self, service: str, once: bool) -> Any:
        from botocore.config import Config  # with boto3: only where AWS is asked

        retries = {"mode": "standard", "total_max_attempts": 1} if once else {"mode": "standard"}
        config = Config(
            retries=retries,
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            max_pool_connections=CONNECTIONS,
            user_agent_extra=f"gpuproof/{__version__}",
        )
        return self._opened().client(service, region_name=self._asked_region, config=config)

    def _opened(self) -> Any:
        with self._lock:
            if self._session is None:
                with self._said("", ""):
                    self._session = self._make_session()
            return self._session

    def _region(self) -> str | None:
        return self._asked_region or self._opened().region_name

    def _circumstances(self) -> Circumstances:
        session = self._session
        region = self._asked_region or (session.region_name if session is not None else None)

        def regions(service: str) -> set[str]:
            with self._lock:
                if session is None:
                    return set()
                partitions = session.get_available_partitions()
                return {
                    name
                    for partition in partitions
                    for name in session.get_available_regions(service or "ec2", partition)
                }

        profile = session.profile_name if session is not None else None
        return Circumstances(region, self._clock(), regions, profile)


def _patience(error: AwsRefused | AwsUnreachable, *, once: bool, answered: bool) -> float:
    """Seconds that may be waited in all before an error counts."""
    if isinstance(error, AwsRefused):
        if error.is_throttle:
            return THROTTLED_SECONDS
        return FAULT_SECONDS if error.is_fault and not once else 0.0
    return UNREACHABLE_SECONDS if answered and not error.maybe_done else 0.0


def _backoff(tries: int) -> float:
    """Seconds before the next attempt: doubling, and spread, so that many callers do not come back together."""
    longest = min(_LONGEST_WAIT, 2.0**tries)
    return longest * (0.5 + random.random() / 2)
