"""Says what is being waited for when AWS does not answer a request, or refuses it and it is repeated."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any
from urllib.parse import urlsplit

from gpuproof import settings
from gpuproof.backends.aws.errors import THROTTLES

_FIRST_SECONDS = 5.0
_FIRST_REPEATED_SECONDS = 3.0
_PAUSE_SECONDS = 60.0
_PAUSE_REPEATED_SECONDS = 30.0


class SlowRequests:
    """Announces requests that take long, because AWS does not answer them or because they are repeated.

    Each operation is announced at most once a minute; while it is repeated, every half minute.

    Args:
        announce: called with a message, possibly from another thread; by default it is printed to standard error, if
            `settings.shows_notices`.
        after: seconds before the first message about a request that is not answered.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        announce: Callable[[str], None] | None = None,
        after: float = _FIRST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._announce = announce or _print
        self._after = after
        self._clock = clock
        self._announced: dict[str, float] = {}
        self._failing_since: dict[str, float] = {}

    @contextlib.contextmanager
    def watch(self, operation: str, host: str, timeout: float) -> Generator[None, None, None]:
        """Context of one request.

        Args:
            operation: the API's name of the operation.
            timeout: seconds after which the request is given up and repeated.
        """
        timer = threading.Timer(self._after, self._announce_wait, (operation, host, timeout))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def observe(self, events: Any) -> None:
        """Observe every attempt of a client's requests, those that botocore repeats by itself included.

        Args:
            events: the `meta.events` of a boto3 client.
        """
        events.register_first("needs-retry", self._attempted)

    def _attempted(
        self,
        *,
        response: tuple[Any, Mapping[str, Any]] | None = None,
        operation: Any = None,
        caught_exception: Exception | None = None,
        request_dict: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> None:
        """One attempt was made; botocore passes these arguments. Returns None, which leaves the decision to botocore."""
        name = operation.name
        why = _failure(response, caught_exception)
        if why is None:
            self._failing_since.pop(name, None)
            return
        now = self._clock()
        seconds = now - self._failing_since.setdefault(name, now)
        if seconds >= _FIRST_REPEATED_SECONDS and self._is_due(name, now, _PAUSE_REPEATED_SECONDS):
            host = urlsplit((request_dict or {}).get("url", "")).netloc
            self._announce(f"{host} {why}: {name} is being repeated, for {seconds:.0f} s so far")

    def _announce_wait(self, operation: str, host: str, timeout: float) -> None:
        if self._is_due(operation, self._clock(), _PAUSE_SECONDS):
            self._announce(
                f"waiting for {host} to answer {operation}, for {self._after:.0f} s so far; "
                f"the request is repeated after {timeout:.0f} s"
            )

    def _is_due(self, operation: str, now: float, pause: float) -> bool:
        if now - self._announced.get(operation, -pause) < pause:
            return False
        self._announced[operation] = now
        return True


def _failure(
    response: tuple[Any, Mapping[str, Any]] | None, caught_exception: Exception | None
) -> str | None:
    """What is wrong with an attempt that AWS may answer later; None if it was answered, or refused for good."""
    if response is None:
        return f"cannot be reached ({type(caught_exception).__name__})"
    http, parsed = response
    code = str(parsed.get("Error", {}).get("Code", ""))
    if http.status_code >= 500 or code in THROTTLES:
        return f"answers {code or http.status_code}"
    return None


def _print(text: str) -> None:
    if settings.shows_notices():
        clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # a progress line may be there
        print(f"{clear}gpuproof: {text}", file=sys.stderr, flush=True)
