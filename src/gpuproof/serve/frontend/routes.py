"""The routes: which request goes where, what is refused before its body is read.

`/ping`, `/invocations` and `/execution-parameters` are SageMaker's
(https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html and …/your-algorithms-batch-code.html),
`/models` its multi-model contract (…/build-multi-model-build-container.html).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Callable, Protocol
from urllib.parse import parse_qs, unquote

from gpuproof.serve.frontend.inference import InferenceCore, Served, refuse
from gpuproof.serve.frontend.openapi import describe
from gpuproof.serve.frontend.pending_request import JSON
from gpuproof.serve.http.exchange import Exchange
from gpuproof.serve.http.parser import Head
from gpuproof.serve.ipc.messages import TARGET_MODEL, Headers

_MIB = 1024 * 1024
_SMALL = 64 * 1024
_PAGE = 100

Refusal = tuple[int, str, Headers]


class ModelStore(Protocol):
    """Loads and unloads models under the multi-model API."""

    def load(self, name: str, url: str, done: Callable[[int, str], None]) -> None:
        """Load a model; `done` is told status and message."""
        ...

    def unload(self, name: str, done: Callable[[int, str], None]) -> None:
        """Unload a model; as above."""
        ...


class App:
    """The front's routes.

    Args:
        core: has the models.
        metrics: the text of `/metrics`.
        store: the multi-model API's; `None` where one model is served.
    """

    def __init__(
        self, core: InferenceCore, metrics: Callable[[], Iterator[str]], store: ModelStore | None = None
    ) -> None:
        self._core = core
        self._metrics = metrics
        self._store = store
        self._plain: dict[str, tuple[str, Callable[[Exchange], None]]] = {
            "/ping": ("GET", self._ping),
            "/metrics": ("GET", self._tell_metrics),
            "/openapi.json": ("GET", self._openapi),
            "/execution-parameters": ("GET", self._execution_parameters),
        }

    def admit(self, head: Head) -> Refusal | int:
        """Before a body is read: how many bytes it may have, or why the request is refused."""
        allowed = self._methods(head.path)
        if not allowed:
            return 404, f"there is no {head.path[:100]} here", ()
        if head.method not in allowed:
            return 405, f"{head.path[:100]} takes {' and '.join(allowed)}", (("allow", ", ".join(allowed)),)
        return self._core.settings.max_payload if _is_inference(head.path) else _SMALL

    def handle(self, exchange: Exchange) -> None:
        """Answer a request that was admitted."""
        if exchange.path == "/invocations":
            self._invoke(exchange, exchange.headers.get(TARGET_MODEL, ""))
            return
        plain = self._plain.get(exchange.path)
        if plain is not None:
            plain[1](exchange)
            return
        self._models(exchange)

    def route(self, path: str) -> str:
        """A path as it is counted; one that no route has is `other`, so that clients make up no counters."""
        allowed = self._methods(path)
        if not allowed or path == "/invocations" or path in self._plain:
            return path if allowed else "other"
        return ("/models", "/models/{name}", "/models/{name}/invoke")[path.count("/") - 1]

    def _methods(self, path: str) -> tuple[str, ...]:
        if path == "/invocations":
            return ("POST",)
        if path in self._plain:
            return ("GET", "HEAD")
        if self._store is None:
            return ()
        parts = path.split("/")
        if parts[:2] != ["", "models"] or not all(parts[2:]):
            return ()
        if len(parts) == 2:
            return ("GET", "POST")
        if len(parts) == 3:
            return ("GET", "DELETE")
        return ("POST",) if len(parts) == 4 and parts[3] == "invoke" else ()

    def _ping(self, exchange: Exchange) -> None:
        trouble = self._core.unhealthy
        if trouble is None:
            exchange.answer(200, JSON, b'{"status": "healthy"}')
        else:
            _tell(exchange, 503, {"status": "unhealthy", "reason": trouble})

    def _tell_metrics(self, exchange: Exchange) -> None:
        text = "\n".join(self._metrics()) + "\n"
        exchange.answer(200, (("content-type", "text/plain; version=0.0.4; charset=utf-8"),), text.encode())

    def _openapi(self, exchange: Exchange) -> None:
        _tell(exchange, 200, describe(self._core.settings, multi_model=self._store is not None))

    def _execution_parameters(self, exchange: Exchange) -> None:
        settings = self._core.settings
        workers = [w for model in self._core.models.values() for w in model.pool.workers.values()]
        told = {
            "MaxConcurrentTransforms": max(1, sum(worker.most for worker in workers)),
            "BatchStrategy": "MULTI_RECORD",
            "MaxPayloadInMB": min(settings.max_payload // _MIB, 100),
        }
        _tell(exchange, 200, told)

    def _invoke(self, exchange: Exchange, name: str) -> None:
        if self._store is None:
            name = "model"
        elif not name:
            self._core.turn_away(exchange, 400, f"several models are served here; {TARGET_MODEL} names one")
            return
        model = self._core.models.get(name)
        if model is None and self._store is None:
            self._core.turn_away(exchange, 503, "the server is starting", (("retry-after", "1"),))
            return
        if model is None:
            self._core.turn_away(exchange, 404, f"there is no model {name[:100]!r} here")
            return
        self._core.infer(exchange, model)

    def _models(self, exchange: Exchange) -> None:
        parts = exchange.path.split("/")
        if len(parts) == 2:
            if exchange.method == "GET":
                self._list(exchange)
            else:
                self._load(exchange)
            return
        name = unquote(parts[2])
        if len(parts) == 4:
            self._invoke(exchange, name)
            return
        model = self._core.models.get(name)
        if model is None:
            refuse(exchange, 404, f"there is no model {name[:100]!r} here")
        elif exchange.method == "DELETE":
            assert self._store is not None
            self._store.unload(name, lambda status, message: _done(exchange, status, message))
        else:
            _tell(exchange, 200, _described(model))

    def _list(self, exchange: Exchange) -> None:
        try:
            start = int(parse_qs(exchange.query).get("next_page_token", ["0"])[0])
        except ValueError:
            refuse(exchange, 400, "next_page_token is none of this server's")
            return
        ready = [model for model in self._core.models.values() if model.health.loaded]
        models = [_described(model) for model in ready[max(start, 0) :]]
        told: dict[str, object] = {"models": models[:_PAGE]}
        if len(models) > _PAGE:
            told["nextPageToken"] = str(max(start, 0) + _PAGE)
        _tell(exchange, 200, told)

    def _load(self, exchange: Exchange) -> None:
        assert self._store is not None
        if self._core.starting:
            refuse(exchange, 503, "the server is starting", (("retry-after", "1"),))
            return
        try:
            asked = json.loads(bytes(exchange.body))
            name, url = asked["model_name"], asked["url"]
        except (ValueError, TypeError, KeyError, RecursionError):
            refuse(exchange, 400, "the body is no JSON object with model_name and url")
            return
        if not isinstance(name, str) or not isinstance(url, str) or not name or "\0" in name + url:
            refuse(exchange, 400, "model_name and url are text")
        elif name in self._core.models:
            refuse(exchange, 409, f"model {name[:100]!r} is loaded already")
        else:
            self._store.load(name, url, lambda status, message: _done(exchange, status, message))


def _is_inference(path: str) -> bool:
    return path == "/invocations" or path.endswith("/invoke")


def _described(model: Served) -> dict[str, str]:
    return {"modelName": model.name, "modelUrl": model.url}


def _done(exchange: Exchange, status: int, message: str) -> None:
    if status == 200:
        _tell(exchange, 200, {"status": message})
    else:
        refuse(exchange, status, message)


def _tell(exchange: Exchange, status: int, told: object) -> None:
    exchange.answer(status, JSON, json.dumps(told).encode())
