"""Admission, health and completion of prediction requests. Independent of HTTP and of processes."""

from __future__ import annotations

import itertools
import time

from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.ipc.messages import INFERENCE_ID, Headers, request_fields
from gpuproof.serve.observability.request_record import Observer, RequestRecord
from gpuproof.serve.settings import Settings
from gpuproof.serve.workers.model_state import ModelState
from gpuproof.serve.workers.pending_request import PendingRequest

TIMEOUT_HEADER = "x-gpuproof-timeout"
"""Request header with which a client lowers the timeout, in seconds."""
_INVOKE = "/models/{name}/invoke"


class InferenceCore:
    """The models of the server, and the requests for their predictions.

    Args:
        observe: called with the record of each completed request.
    """

    def __init__(self, settings: Settings, observe: Observer) -> None:
        self.settings = settings
        self.models: dict[str, ModelState] = {}
        self.starting = False
        """The server listens, but the devices for its models are not known yet."""
        self.draining = False
        """`/ping` reports that the server is shutting down; requests on open connections are still answered."""
        self.closed = False
        """No more requests are answered."""
        self.trouble: str | None = None
        """Why the whole server is unhealthy, regardless of its models."""
        self._observe = observe
        self._numbers = itertools.count(1)

    @property
    def unhealthy(self) -> str | None:
        """Why `/ping` returns 503; `None` if it returns 200."""
        if self.draining:
            return "the server is shutting down"
        if self.starting:
            return "starting"
        if self.trouble is not None:
            return self.trouble
        if self.settings.require_gpu:
            misplaced = [text for model in self.models.values() for text in model.health.misplaced.values()]
            if misplaced:
                return misplaced[0]
        if self.settings.multi_model:
            return None
        if not self.models:
            return "starting"
        return next((model.health.trouble for model in self.models.values() if model.health.trouble), None)

    @property
    def busy(self) -> bool:
        """Whether any client waits for a response."""
        return any(not model.dispatcher.idle for model in self.models.values())

    def infer(self, exchange: Exchange, model: ModelState) -> None:
        """Respond with the model's prediction, or with an error."""
        now = time.monotonic()
        timeout = self._timeout(exchange)
        fields = request_fields(now + timeout, exchange.headers)
        request = PendingRequest(
            next(self._numbers), exchange, fields, now, now + timeout, lambda done: self._on_done(done, model)
        )
        rejection = self._rejection(model)
        if rejection is not None:
            status, message = rejection
            request.reject(status, message, (("retry-after", str(model.dispatcher.retry_after_s)),))
            return
        model.dispatcher.submit(request)

    def reject(self, exchange: Exchange, status: int, message: str, headers: Headers = ()) -> None:
        """Respond with an error to a prediction request that reaches no model, and record it."""
        exchange.send_error(status, message, headers)
        path = exchange.path if exchange.path == "/invocations" else _INVOKE
        self._observe(
            RequestRecord(time.time(), exchange.method, path, status, 0.0, len(exchange.body), exchange.sent)
        )

    def _timeout(self, exchange: Exchange) -> float:
        requested = exchange.headers.get(TIMEOUT_HEADER)
        if requested is None:
            return self.settings.timeout_s
        try:
            seconds = float(requested)
        except ValueError:
            return self.settings.timeout_s
        return min(seconds, self.settings.timeout_s) if seconds > 0 else self.settings.timeout_s

    def _rejection(self, model: ModelState) -> tuple[int, str] | None:
        if self.closed:
            return 503, "the server is shutting down"
        if model.health.lost and not model.dispatcher.workers:
            return 503, "the model cannot be served; see the server's log"
        if not model.health.loaded:
            return 503, "the model is still loading"
        if model.dispatcher.full:
            return 429, "too many requests are waiting"
        return None

    def _on_done(self, request: PendingRequest, model: ModelState) -> None:
        now = time.monotonic()
        exchange = request.exchange
        phases = request.phases
        get = exchange.headers.get
        # Positional arguments: keyword arguments take half as long again.
        self._observe(
            RequestRecord(
                time.time(),
                exchange.method,
                exchange.path if model.name == "model" else _INVOKE,
                499 if request.cancelled else exchange.status,
                now - request.accepted,
                len(exchange.body),
                exchange.sent,
                model.name,
                request.worker,
                max(phases.taken - request.accepted, 0.0),
                phases,
                get(INFERENCE_ID, ""),
                get("traceparent", ""),
            )
        )
