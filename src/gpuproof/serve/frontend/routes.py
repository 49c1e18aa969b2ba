"""Routing of HTTP requests, and rejection of requests before their body is read.

`/ping`, `/invocations` and `/execution-parameters` are SageMaker's
(https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html and …/your-algorithms-batch-code.html),
`/models` its multi-model contract (…/build-multi-model-build-container.html).
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterator
from typing import Callable, Protocol
from urllib.parse import parse_qs, unquote

from gpuproof.serve.codecs.content_coding import is_supported
from gpuproof.serve.frontend.inference import InferenceCore
from gpuproof.serve.frontend.openapi import describe
from gpuproof.serve.frontend.verdict import HEADER, VERDICT
from gpuproof.serve.http.exchange import JSON_HEADERS, Exchange
from gpuproof.serve.http.parser import Head
from gpuproof.serve.ipc.messages import TARGET_MODEL, Headers
from gpuproof.serve.workers.model_state import ModelState

_MIB = 1024 * 1024
_SMALL = 64 * 1024
_PAGE = 100
_OPEN = ("/ping", "/metrics", "/openapi.json", "/execution-parameters")

Rejection = tuple[int, str, Headers]


class ModelStore(Protocol):
    """Loads and unloads models for the multi-model API."""

    def load(self, name: str, url: str, on_done: Callable[[int, str], None]) -> None:
        """Load a model; `on_done` is called with HTTP status and message."""
        ...

    def unload(self, name: str, on_done: Callable[[int, str], None]) -> None:
        """Unload a model; `on_done` is called with HTTP status and message."""
        ...


class Router:
    """Routes requests to predictions, health, metrics and the multi-model API.

    Args:
        metrics: returns the lines of `/metrics`.
        store: loads and unloads models; `None` if a single model is served.
        verdict: returns the verdict about the GPU; `None` if there is none.
    """

    def __init__(
        self,
        core: InferenceCore,
        metrics: Callable[[], Iterator[str]],
        store: ModelStore | None = None,
        verdict: Callable[[], dict[str, object]] | None = None,
    ) -> None:
        self._verdict = verdict
        self._core = core
        self._metrics = metrics
        self._store = store
        self._token = core.settings.models_token
        self._get_routes: dict[str, tuple[str, Callable[[Exchange], None]]] = {
            "/ping": ("GET", self._ping),
            "/metrics": ("GET", self._send_metrics),
            "/openapi.json": ("GET", self._openapi),
            "/execution-parameters": ("GET", self._execution_parameters),
        }

    def admit(self, head: Head) -> Rejection | int:
        """Return the maximum size of the body in bytes, or why the request is rejected."""
        allowed = self._methods(head.path)
        if not allowed:
            return 404, f"{head.path[:100]} does not exist", ()
        if head.method not in allowed:
            return (
                405,
                f"{head.path[:100]} accepts only {' and '.join(allowed)}",
                (("allow", ", ".join(allowed)),),
            )
        if self._token and not self._may_manage(head):
            return 401, "the token is missing or wrong", (("www-authenticate", "Bearer"),)
        coding = head.headers.get("content-encoding")
        if coding and head.method == "POST" and not (_is_inference(head.path) and is_supported(coding)):
            return (
                415,
                f"the content coding {coding[:40]!r} is not supported; send the body as it is, or with gzip",
                (("accept-encoding", "gzip, identity"),),
            )
        return self._core.settings.max_payload if _is_inference(head.path) else _SMALL

    def _may_manage(self, head: Head) -> bool:
        """Whether a request may list, load or unload models; others need no token."""
        token = self._token
        if head.path in _OPEN or _is_inference(head.path):
            return True
        scheme, _, given = head.headers.get("authorization", "").partition(" ")
        # Compared in constant time.
        return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())

    def handle(self, exchange: Exchange) -> None:
        """Respond to a request that was admitted."""
        if exchange.path == "/invocations":
            if self._verdict is not None and exchange.headers.get(HEADER) == VERDICT:
                _send_json(exchange, 200, self._verdict())
                return
            self._invoke(exchange, exchange.headers.get(TARGET_MODEL, ""))
            return
        route = self._get_routes.get(exchange.path)
        if route is not None:
            route[1](exchange)
            return
        self._models(exchange)

    def metrics_path(self, path: str) -> str:
        """The path for metrics; `other` for unknown paths, so that clients cannot create arbitrary counters."""
        allowed = self._methods(path)
        if not allowed or path == "/invocations" or path in self._get_routes:
            return path if allowed else "other"
        return ("/models", "/models/{name}", "/models/{name}/invoke")[path.count("/") - 1]

    def _methods(self, path: str) -> tuple[str, ...]:
        if path == "/invocations":
            return ("POST",)
        if path in self._get_routes:
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
            exchange.respond(200, JSON_HEADERS, b'{"status": "healthy"}')
        else:
            _send_json(exchange, 503, {"status": "unhealthy", "reason": trouble})

    def _send_metrics(self, exchange: Exchange) -> None:
        text = "\n".join(self._metrics()) + "\n"
        exchange.respond(200, (("content-type", "text/plain; version=0.0.4; charset=utf-8"),), text.encode())

    def _openapi(self, exchange: Exchange) -> None:
        _send_json(exchange, 200, describe(self._core.settings, multi_model=self._store is not None))

    def _execution_parameters(self, exchange: Exchange) -> None:
        settings = self._core.settings
        workers = [w for model in self._core.models.values() for w in model.dispatcher.workers.values()]
        parameters = {
            "MaxConcurrentTransforms": max(1, sum(worker.batch_size for worker in workers)),
            "BatchStrategy": "MULTI_RECORD",
            "MaxPayloadInMB": min(settings.max_payload // _MIB, 100),
        }
        _send_json(exchange, 200, parameters)

    def _invoke(self, exchange: Exchange, name: str) -> None:
        if self._store is None:
            name = "model"
        elif not name:
            self._core.reject(
                exchange, 400, f"this server has several models: name one in the header {TARGET_MODEL}"
            )
            return
        model = self._core.models.get(name)
        if model is None and self._store is None:
            self._core.reject(exchange, 503, "the server is starting", (("retry-after", "1"),))
            return
        if model is None:
            self._core.reject(exchange, 404, f"model {name[:100]!r} is not loaded")
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
            exchange.send_error(404, f"model {name[:100]!r} is not loaded")
        elif exchange.method == "DELETE":
            assert self._store is not None
            self._store.unload(name, lambda status, message: _send_result(exchange, status, message))
        else:
            _send_json(exchange, 200, _description(model))

    def _list(self, exchange: Exchange) -> None:
        try:
            start = int(parse_qs(exchange.query).get("next_page_token", ["0"])[0])
        except ValueError:
            exchange.send_error(400, "next_page_token is invalid")
            return
        ready = [model for model in self._core.models.values() if model.health.loaded]
        models = [_description(model) for model in ready[max(start, 0) :]]
        page: dict[str, object] = {"models": models[:_PAGE]}
        if len(models) > _PAGE:
            page["nextPageToken"] = str(max(start, 0) + _PAGE)
        _send_json(exchange, 200, page)

    def _load(self, exchange: Exchange) -> None:
        assert self._store is not None
        if self._core.starting:
            exchange.send_error(503, "the server is starting", (("retry-after", "1"),))
            return
        try:
            values = json.loads(bytes(exchange.body))
            name, url = values["model_name"], values["url"]
        except (ValueError, TypeError, KeyError, RecursionError):
            exchange.send_error(400, "the body must be a JSON object with model_name and url")
            return
        if not isinstance(name, str) or not isinstance(url, str) or not name or "\0" in name + url:
            exchange.send_error(400, "model_name and url must be non-empty text")
        elif name in self._core.models:
            exchange.send_error(409, f"model {name[:100]!r} is loaded already")
        else:
            self._store.load(name, url, lambda status, message: _send_result(exchange, status, message))


def _is_inference(path: str) -> bool:
    return path == "/invocations" or path.endswith("/invoke")


def _description(model: ModelState) -> dict[str, str]:
    return {"modelName": model.name, "modelUrl": model.url}


def _send_result(exchange: Exchange, status: int, message: str) -> None:
    if status == 200:
        _send_json(exchange, 200, {"status": message})
    else:
        exchange.send_error(status, message)


def _send_json(exchange: Exchange, status: int, value: object) -> None:
    exchange.respond(status, JSON_HEADERS, json.dumps(value).encode())
