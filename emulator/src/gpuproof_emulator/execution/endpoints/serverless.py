"""Serverless variants: the container starts with the first request, and ends when no more requests come.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/serverless-endpoints.html
"""

from __future__ import annotations

import threading
from typing import Any

from gpuproof_emulator.execution.endpoints.container_spec import ContainerSpec, ServingFailed
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse

MAX_BODY = 4 << 20
"""Bytes of the body of an invocation, as on the page above."""
STARTUP_TIMEOUT_S = 180.0
"""Seconds within which a container must be healthy, as on the page above."""
_IDLE_S = 300.0  # AWS does not state after how long a container ends


class ServerlessModel:
    """A container that runs while there are requests.

    Args:
        server: starts containers (a `ModelServer` of the registry).
        spec: what to start.
        max_concurrency: number of simultaneous requests; one more is throttled.
        idle_seconds: without requests, after which the container ends.
    """

    def __init__(
        self, server: Any, spec: ContainerSpec, max_concurrency: int, idle_seconds: float = _IDLE_S
    ) -> None:
        self._server = server
        self._spec = spec
        self._slots = threading.BoundedSemaphore(max_concurrency)
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._running: Any = None
        self._active = 0
        self._timer: threading.Timer | None = None
        self._stopped = False

    def verify(self) -> None:
        """Start the container once, as SageMaker does when it creates the endpoint, and end it.

        Raises:
            ServingFailed: it is not healthy in time.
        """
        self._server.start(self._spec).stop()

    def invoke(self, request: AwsRequest, timeout: float | None = None) -> AwsResponse:
        """Forward an invocation; the first one waits until the container has started.

        Raises:
            AwsError: there are too many requests, or the container does not start.
        """
        if not self._slots.acquire(blocking=False):
            message = "Too many requests: the endpoint's MaxConcurrency is reached."
            raise AwsError("ThrottlingException", message, 429)
        try:
            return self._enter().invoke(request, timeout)
        except ServingFailed as error:
            raise AwsError("ServiceUnavailable", str(error), 503) from error
        finally:
            self._leave()
            self._slots.release()

    def stop(self) -> None:
        """End the container."""
        with self._lock:
            self._stopped = True
            running, self._running = self._running, None
            self._cancel_timer()
        if running is not None:
            running.stop()

    def _enter(self) -> Any:
        with self._lock:
            self._active += 1
            self._cancel_timer()
            if self._stopped:
                raise ServingFailed("The endpoint is being deleted.")
            if self._running is None:
                self._running = self._server.start(self._spec)
            return self._running

    def _leave(self) -> None:
        with self._lock:
            self._active -= 1
            if self._active == 0 and self._running is not None:
                self._timer = threading.Timer(self._idle_seconds, self._end_idle)
                self._timer.daemon = True
                self._timer.start()

    def _end_idle(self) -> None:
        with self._lock:
            if self._active or self._running is None:
                return
            running, self._running = self._running, None
        running.stop()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
