"""Requests to AWS: cached boto3 clients, retries, waiting for throttling to end, translated errors."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from gpuproof.backends.aws.error_hints import ErrorContext, unknown_region
from gpuproof.backends.aws.error_translation import WITHOUT_ACCOUNT, RequestInfo, translate_error
from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable
from gpuproof.backends.aws.retry import backoff_seconds, botocore_retries, retry_seconds
from gpuproof.backends.aws.s3_object import CONNECTIONS
from gpuproof.backends.aws.slow_request import SlowRequests
from gpuproof.errors import GPUproofError, UsageError
from gpuproof.settings import boto3_session, on_ec2
from gpuproof.version import __version__

_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_CREATING = ("create_", "run_", "request_", "import_")
"""Prefixes of operations that create a new resource on every request."""

_REPEATABLE = ("create_tags",)
"""Operations with such a prefix that may be repeated nevertheless."""

_TOKENS = {
    "s3": ("ContinuationToken", "NextContinuationToken"),
    "sagemaker": ("NextToken", "NextToken"),
    "logs": ("nextToken", "nextToken"),
    "iam": ("Marker", "Marker"),
    "ec2": ("NextToken", "NextToken"),
    "resourcegroupstaggingapi": ("PaginationToken", "PaginationToken"),
    "cloudwatch": ("NextToken", "NextToken"),
    "ce": ("NextPageToken", "NextPageToken"),
    "scheduler": ("NextToken", "NextToken"),
    "application-autoscaling": ("NextToken", "NextToken"),
}
"""The request and response members of each service's pagination token.

Source: botocore's `paginators-1.json` of each.
"""

T = TypeVar("T")


class AwsSession:
    """Requests to AWS through boto3, repeated as the retry policy says (`retry.py`).

    Args:
        session: creates the boto3 session; called once.
        sleep: waits for a number of seconds.
        clock: the time in seconds since the epoch.
        region: the region of all requests; the session's default if None.
        notify: called with what is being waited for, when requests take long; by default that is printed.

    Every method raises NoCredentials, AwsRefused or AwsUnreachable if the request fails.
    """

    def __init__(
        self,
        session: Callable[[], Any] = boto3_session,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        region: str | None = None,
        notify: Callable[[str], None] | None = None,
        slow: SlowRequests | None = None,
    ) -> None:
        self._make_session = session
        self._sleep = sleep
        self._clock = clock
        self._given_region = region
        self._slow = slow or SlowRequests(notify)
        # boto3 sessions may be used by one thread at a time, clients by many.
        self._lock = threading.RLock()
        self._session: Any = None
        self._clients: dict[tuple[str, bool], Any] = {}
        self._answered: set[str] = set()
        self._regions: dict[str, Self] = {}

    def in_region(self, region: str) -> Self:
        """The client of another region, with the same session; this one for its own region."""
        if region == self.region:
            return self
        with self._lock:
            if region not in self._regions:
                other = type(self)(self._open_session, self._sleep, self._clock, region, slow=self._slow)
                other._lock = self._lock  # noqa: SLF001 - of this class: both use one boto3 session
                self._regions[region] = other
            return self._regions[region]

    @property
    def region(self) -> str:
        """The region of all requests.

        Raises:
            UsageError: none is set.
        """
        found = self._region()
        if found is None:
            without = "" if self.has_credentials() else f"\n{WITHOUT_ACCOUNT}"
            raise UsageError(
                "No AWS region is set.",
                remedy=f"export AWS_REGION=us-east-1 (or the region of your data), or use --region us-east-1{without}",
            )
        return found

    @property
    def configured_region(self) -> str | None:
        """The region of all requests; None if none is set."""
        return self._region()

    def boto3_session(self) -> Any:
        """The boto3 session."""
        return self._open_session()

    def has_credentials(self) -> bool:
        """Whether any credentials are configured. Makes no request, except to the metadata service on an instance of EC2."""
        session = self._open_session()
        with self._lock, self._translated("", ""):
            if not on_ec2():
                # Elsewhere, its last resort takes seconds, and asks the host that has the address in this network.
                session._session.get_component("credential_provider").remove("iam-role")  # noqa: SLF001
            return session.get_credentials() is not None

    @property
    def region_flag(self) -> str:
        """` --region us-west-2` if a command without it would use another region than this client; otherwise empty."""
        region = self._given_region
        return "" if region is None or region == self._open_session().region_name else f" --region {region}"

    def unknown_region(self) -> str | None:
        """None if boto3 knows the region for SageMaker; otherwise the most similar region, or an empty string."""
        self._open_session()
        unknown = unknown_region("sagemaker", self._error_context())
        return unknown["near_region"] if unknown else None

    def call(self, service: str, operation: str, /, **request: Any) -> dict[str, Any]:
        """Call one operation.

        Args:
            service: the boto3 service name, such as `sagemaker`.
            operation: the boto3 method, such as `create_training_job`.
            request: its arguments, with the names of the API.

        Raises:
            AwsUnreachable: with `maybe_done` if the connection was lost after a request that creates something was
                sent: check whether it exists before repeating it.
        """
        return self._request(service, operation, request)

    def _request(
        self, service: str, operation: str, request: dict[str, Any], subject: str | None = None
    ) -> dict[str, Any]:
        once = operation.startswith(_CREATING) and operation not in _REPEATABLE

        def attempt() -> dict[str, Any]:
            client = self._client(service, once=once)
            name = client.meta.method_to_api_mapping[operation]
            host = urlsplit(client.meta.endpoint_url).netloc
            with (
                self._slow.watch(name, host, _READ_SECONDS),
                self._translated(service, name, subject, once=once),
            ):
                return getattr(client, operation)(**request)

        return self._with_retries(service, attempt, once=once)

    def _with_retries(self, service: str, attempt: Callable[[], T], *, once: bool = False) -> T:
        """Retry until it succeeds or the time limit is reached; with `once`, only if it has certainly not been done."""
        waited, tries = 0.0, 0
        while True:
            try:
                result = attempt()
            except (AwsRefused, AwsUnreachable) as error:
                limit = retry_seconds(error, once=once, answered=service in self._answered)
                if waited >= limit:
                    raise
                seconds = backoff_seconds(tries)
                self._sleep(seconds)
                waited, tries = waited + seconds, tries + 1
            else:
                self._answered.add(service)
                return result

    def _pages(
        self, service: str, operation: str, request: dict[str, Any], subject: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield all pages of a listing."""
        request_token, response_token = _TOKENS[service]
        page_request = dict(request)
        while True:
            page = self._request(service, operation, page_request, subject)
            yield page
            token = page.get(response_token)
            if not token or token == page_request.get(request_token):
                return
            page_request[request_token] = token

    def _items(
        self, service: str, operation: str, member: str, request: dict[str, Any], subject: str | None = None
    ) -> Iterator[Any]:
        """Yield the items of a listing, from a member of all its pages."""
        for page in self._pages(service, operation, request, subject):
            yield from page.get(member, ())

    def _find(
        self,
        service: str,
        operation: str,
        request: dict[str, Any],
        subject: str | None = None,
        missing: Collection[str] = (),
    ) -> dict[str, Any] | None:
        """The response; None if the resource does not exist: `missing` are AWS's error codes, see also `AwsRefused.is_missing`."""
        try:
            return self._request(service, operation, request, subject)
        except AwsRefused as refused:
            if refused.code in missing or refused.is_missing:
                return None
            raise

    @contextlib.contextmanager
    def _translated(
        self, service: str, operation: str, subject: str | None = None, *, once: bool = False
    ) -> Generator[None, None, None]:
        """Translate botocore exceptions."""
        try:
            yield
        except GPUproofError:
            raise
        except Exception as error:
            translated = translate_error(
                error, RequestInfo(service, operation, subject, once), self._error_context()
            )
            if translated is None:
                raise
            raise translated from error

    def _client(self, service: str, *, once: bool = False) -> Any:
        with self._lock:
            if (service, once) not in self._clients:
                with self._translated(service, ""):
                    self._clients[service, once] = self._make_client(service, once)
            return self._clients[service, once]

    def _make_client(self, service: str, once: bool) -> Any:
        from botocore.config import Config  # slow to import: only for runs on AWS

        config = Config(
            retries=botocore_retries(once=once),
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_READ_SECONDS,
            max_pool_connections=CONNECTIONS,
            user_agent_extra=f"gpuproof/{__version__}",
        )
        client = self._open_session().client(service, region_name=self._given_region, config=config)
        self._slow.observe(client.meta.events)
        return client

    def _open_session(self) -> Any:
        with self._lock:
            if self._session is None:
                with self._translated("", ""):
                    self._session = self._make_session()
            return self._session

    def _region(self) -> str | None:
        return self._given_region or self._open_session().region_name

    def _error_context(self) -> ErrorContext:
        session = self._session
        region = self._given_region or (session.region_name if session is not None else None)

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
        return ErrorContext(region, self._clock(), regions, profile)
