"""The heart of the front: takes requests for predictions in, knows whether the server is healthy, remembers each answer.

It knows neither HTTP nor processes: an `Exchange` is the client's end, a `Pool` has the predictors.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field

from gpuproof.serve.frontend.dispatcher import Pool
from gpuproof.serve.frontend.pending_request import JSON, Call, error_body
from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.ipc.messages import INFERENCE_ID, call_fields
from gpuproof.serve.observability.request_record import Observer, Record
from gpuproof.serve.settings import Settings

TIMEOUT_HEADER = "x-gpuproof-timeout"
"""A client that will not wait as long as the server would: seconds."""
_INVOKE = "/models/{name}/invoke"


@dataclass
class Health:
    """Whether one model can be served.

    Args:
        wanted: how many predictors it should have.
        loaded: places whose predictor has loaded the model at least once.
        lost: why places are empty for good.
        resting: places that have fallen empty again and again, and how.
        misplaced: places whose model is on the CPU beside a GPU, and what to do about it.
    """

    wanted: int
    loaded: set[int] = field(default_factory=set)
    lost: list[str] = field(default_factory=list)
    resting: dict[int, str] = field(default_factory=dict)
    misplaced: dict[int, str] = field(default_factory=dict)

    @property
    def trouble(self) -> str | None:
        """Why `/ping` says 503; `None` when all is well."""
        if self.lost:
            return self.lost[0]
        if self.resting:
            return next(iter(self.resting.values()))
        if len(self.loaded) < self.wanted:
            return f"loading: {len(self.loaded)} of {self.wanted} predictors are ready"
        return None


@dataclass
class Served:
    """One model being served.

    Args:
        name: `model`, or its name under the multi-model API.
        url: the folder it came from.
    """

    name: str
    url: str
    pool: Pool
    health: Health


class InferenceCore:
    """All models of this server.

    Args:
        settings: limits and times.
        observe: told every answered prediction.
    """

    def __init__(self, settings: Settings, observe: Observer) -> None:
        self.settings = settings
        self.models: dict[str, Served] = {}
        self.starting = False
        """It listens, and does not yet know where models can be placed."""
        self.draining = False
        self.trouble: str | None = None
        """Why the whole server is unhealthy, whatever its models are."""
        self._observe = observe
        self._numbers = itertools.count(1)

    @property
    def unhealthy(self) -> str | None:
        """Why `/ping` says 503; `None` when it says 200."""
        if self.draining:
            return "the server is shutting down"
        if self.starting:
            return "starting"
        if self.trouble is not None:
            return self.trouble
        if self.settings.require_gpu:
            misplaced = [words for model in self.models.values() for words in model.health.misplaced.values()]
            if misplaced:
                return misplaced[0]
        if self.settings.multi_model:
            return None
        if not self.models:
            return "starting"
        return next((model.health.trouble for model in self.models.values() if model.health.trouble), None)

    @property
    def in_flight(self) -> int:
        """Requests that are waited for."""
        return sum(0 if model.pool.idle else 1 for model in self.models.values())

    def infer(self, exchange: Exchange, model: Served) -> None:
        """Answer a request with the model's prediction, or with why there is none."""
        now = time.monotonic()
        timeout = self._timeout(exchange)
        fields = call_fields(now + timeout, exchange.headers)
        call = Call(
            next(self._numbers), exchange, fields, now, now + timeout, lambda done: self._done(done, model)
        )
        reason = self._refuses(model)
        if reason is not None:
            status, words = reason
            call.refuse(status, words, (("retry-after", str(model.pool.retry_after_s)),))
            return
        model.pool.submit(call)

    def turn_away(
        self, exchange: Exchange, status: int, message: str, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        """Answer a request for a prediction that no model can be asked for."""
        refuse(exchange, status, message, headers)
        path = exchange.path if exchange.path == "/invocations" else _INVOKE
        self._observe(
            Record(time.time(), exchange.method, path, status, 0.0, len(exchange.body), exchange.sent)
        )

    def _timeout(self, exchange: Exchange) -> float:
        asked = exchange.headers.get(TIMEOUT_HEADER)
        if asked is None:
            return self.settings.timeout_s
        try:
            seconds = float(asked)
        except ValueError:
            return self.settings.timeout_s
        return min(seconds, self.settings.timeout_s) if seconds > 0 else self.settings.timeout_s

    def _refuses(self, model: Served) -> tuple[int, str] | None:
        if self.draining:
            return 503, "the server is shutting down"
        if model.health.lost and not model.pool.workers:
            return 503, "the model cannot be served; the server's log says why"
        if not model.health.loaded:
            return 503, "the model is still loading"
        if model.pool.full:
            return 429, "too many requests wait already"
        return None

    def _done(self, call: Call, model: Served) -> None:
        now = time.monotonic()
        exchange = call.exchange
        phases = call.phases
        get = exchange.headers.get
        # By position: by name it takes half as long again.
        self._observe(
            Record(
                time.time(),
                exchange.method,
                exchange.path if model.name == "model" else _INVOKE,
                499 if call.cancelled else exchange.status,
                now - call.accepted,
                len(exchange.body),
                exchange.sent,
                model.name,
                call.worker,
                max(phases.taken - call.accepted, 0.0),
                phases,
                get(INFERENCE_ID, ""),
                get("traceparent", ""),
            )
        )


def refuse(exchange: Exchange, status: int, message: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
    """Answer with an error."""
    exchange.answer(status, (*JSON, *headers), error_body(message))
