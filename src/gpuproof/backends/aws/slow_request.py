"""Says what is being waited for when AWS accepts a connection and does not answer."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Generator

_FIRST_SECONDS = 5.0
_PAUSE_SECONDS = 60.0


class SlowRequests:
    """Announces requests that take long, each operation at most once a minute.

    Args:
        announce: called with a message, from another thread; prints it to standard error if None.
        after: seconds before the first message.
    """

    def __init__(self, announce: Callable[[str], None] | None = None, after: float = _FIRST_SECONDS) -> None:
        self._announce = announce or _print
        self._after = after
        self._announced: dict[str, float] = {}

    @contextlib.contextmanager
    def watch(self, operation: str, host: str, timeout: float) -> Generator[None, None, None]:
        """Context of one request.

        Args:
            operation: the API's name of the operation.
            timeout: seconds after which the request is given up and repeated.
        """
        timer = threading.Timer(self._after, self._say, (operation, host, timeout))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _say(self, operation: str, host: str, timeout: float) -> None:
        now = time.monotonic()
        if now - self._announced.get(operation, -_PAUSE_SECONDS) < _PAUSE_SECONDS:
            return
        self._announced[operation] = now
        self._announce(
            f"waiting for {host} to answer {operation}, for {self._after:.0f} s so far; "
            f"the request is repeated after {timeout:.0f} s"
        )


def _print(text: str) -> None:
    clear = "\r\x1b[K" if sys.stderr.isatty() else ""  # a progress line may be there
    print(f"{clear}gpuproof: {text}", file=sys.stderr, flush=True)
