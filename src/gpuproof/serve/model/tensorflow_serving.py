"""Handlers written for AWS's TensorFlow Serving container: `input_handler` and `output_handler`, or `handler`.

Source: the README of sagemaker-tensorflow-serving-container, "Pre/Post-Processing".
"""

from __future__ import annotations

import errno
import io
import json
import re
import threading
from collections.abc import Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from gpuproof.serve import media_types
from gpuproof.serve.codecs import arrays
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.frameworks.tensorflow_models import Target
from gpuproof.serve.interface import Request, Response
from gpuproof.serve.model import user_errors
from gpuproof.serve.model.context import ServingContext, serving_context
from gpuproof.serve.model.served_model import ServedModel

_CONTEXT = "serving context"
_URL = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+))?(?::(\w+))?")


class TensorFlowServingModel(ServedModel):
    """A SavedModel whose handler uses TensorFlow Serving's REST API, which this process implements itself."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._rest: Any = None
        self.has_transform = "handler" in self._hooks
        if self.has_transform:
            self._rest = RestApi(self, self._settings.safe_port_range)
            self.batch = replace(self.batch, enabled=False)

    def decode(self, request: Request) -> Any:
        self._modules.activate()
        context = self._serving_context(request)
        try:
            body = self._hooks.found["input_handler"](io.BytesIO(request.body), context=context)
        except Exception as error:
            request_error = user_errors.decoding_error(error, request.body, context.request_content_type)
            if request_error is None:
                raise
            raise request_error from error
        return self.read_rest(body.encode() if isinstance(body, str) else body, self._target_of(request))

    def encode(self, prediction: Any, request: Request) -> Response:
        self._modules.activate()
        context = self._serving_context(request)
        respond = RestResponse(self.write_rest(prediction))
        try:
            body, content_type = self._hooks.found["output_handler"](respond, context=context)
        except Exception as error:
            request_error = user_errors.encoding_error(error, request.accept)
            if request_error is None:
                raise
            raise request_error from error
        return _response(body, content_type)

    def transform(self, request: Request) -> Response:
        self._modules.activate()
        context = self._serving_context(request)
        try:
            body, content_type = self._hooks.found["handler"](io.BytesIO(request.body), context=context)
        except Exception as error:
            request_error = user_errors.decoding_error(error, request.body, context.request_content_type)
            if request_error is None:
                raise
            raise request_error from error
        return _response(body, content_type)

    def read_rest(self, body: Any, target: Target) -> Any:
        """Read a body of the REST API as tensors. Raises RequestError."""
        try:
            return self._tensorflow.read_rest(body, target)
        except RecursionError:
            raise arrays.too_deep() from None

    def write_rest(self, prediction: Any) -> bytes:
        """Write a prediction as a response of the REST API."""
        return self._tensorflow.write(prediction, media_types.JSON)

    def versions(self, name: str) -> list[int]:
        """The versions of a model in the REST API. Raises RequestError (404)."""
        models = self._tensorflow.models
        return [1] if models is None else sorted(models.versions(self._own_name(name)))

    def target_of_url(self, path: str) -> Target:
        """What a URL of the REST API stands for: `/v1/models/NAME/versions/VERSION:METHOD`. Raises RequestError (404)."""
        match = _URL.fullmatch(path)
        if match is None:
            raise RequestError(404, f"{path[:100]} does not exist")
        name, version, method = match.groups(default="")
        return Target(self._own_name(unquote(name)), version, method or "predict")

    def unload(self) -> None:
        if self._rest is not None:
            self._rest.close()
        super().unload()

    @property
    def _tensorflow(self) -> Any:
        """The framework, which is always TensorFlow."""
        return self._framework

    def _own_name(self, name: str) -> str:
        """Empty, which stands for the default model, for the name of this model in the multi-model API."""
        return "" if self._settings.multi_model and name == self.name else name

    def _target_of(self, request: Request) -> Target:
        return self._tensorflow.target_of(request)

    def _serving_context(self, request: Request) -> ServingContext:
        context = request.notes.get(_CONTEXT)
        if context is None:
            target = self._target_of(request)
            target.check_method()
            models = self._tensorflow.models
            name = self.name if models is None or self._settings.multi_model else models.default
            rest = self._rest.address if self._rest is not None else ""
            context = serving_context(
                target.model or name, target, request, rest, self._settings.default_accept
            )
            request.notes[_CONTEXT] = context
        return context


class RestResponse:
    """The argument of an `output_handler`: the parts of `requests.Response` that describe a response."""

    def __init__(self, content: bytes, status_code: int = 200) -> None:
        self.content = content
        self.status_code = status_code
        self.encoding = "utf-8"
        self.reason = "OK" if status_code == 200 else "Bad Request"
        self.headers: Mapping[str, str] = {
            "Content-Type": media_types.JSON,
            "Content-Length": str(len(content)),
        }

    @property
    def ok(self) -> bool:
        return self.status_code < 400

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)

    def raise_for_status(self) -> None:
        """Do nothing: errors are not passed to `output_handler`."""


def _response(body: Any, content_type: str) -> Response:
    content = getattr(body, "content", body)
    return Response(content.encode() if isinstance(content, str) else bytes(content), content_type)


class RestApi:
    """TensorFlow Serving's REST API on loopback, for handlers that call it (`requests.post(context.rest_uri)`).

    Responds to `POST /v1/models/NAME[/versions/VERSION]:METHOD` with predictions, and to `GET /v1/models/NAME` with the
    versions of the model.

    Args:
        model: a `TensorFlowServingModel`.
        ports: first and last port to try; any free port if None.

    Raises:
        LoadError: all of these ports are taken.
    """

    def __init__(self, model: Any, ports: tuple[int, int] | None = None) -> None:
        outer = self
        self._model = model

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._send(*outer.respond(self.path, body))

            def do_GET(self) -> None:
                self._send(*outer.status(self.path))

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in http.server
                """Do nothing: the server has its own access log."""

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = _listen(Handler, ports)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, daemon=True, name="tensorflow-rest"
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def respond(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of the response to a request, as from TensorFlow Serving."""
        try:
            tensors = self._model.read_rest(body, self._model.target_of_url(path))
            return 200, self._model.write_rest(self._model.predict(tensors, Request()))
        except RequestError as error:
            return 404 if error.status == 404 else 400, _error(error.message)
        except Exception as error:  # noqa: BLE001 - reported to the handler that sent the request
            return 500, _error(f"{type(error).__name__}: {error}")

    def status(self, path: str) -> tuple[int, bytes]:
        """Status and body of the response to `GET /v1/models/NAME`: the versions that are served."""
        try:
            target = self._model.target_of_url(path)
            versions = self._model.versions(target.model)
        except RequestError as error:
            return 404, _error(error.message)
        if target.version:
            versions = [version for version in versions if str(version) == target.version.lstrip("0")]
        if not versions:
            return 404, _error(f"There is no version {target.version} of {target.model}.")
        states = [{"version": str(v), "state": "AVAILABLE", "status": _NO_ERROR} for v in reversed(versions)]
        return 200, json.dumps({"model_version_status": states}).encode()

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _listen(handler: type[BaseHTTPRequestHandler], ports: tuple[int, int] | None) -> ThreadingHTTPServer:
    if ports is None:
        return ThreadingHTTPServer(("127.0.0.1", 0), handler)
    for port in range(ports[0], ports[1] + 1):
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError as error:  # noqa: PERF203 - each worker takes another port
            if error.errno != errno.EADDRINUSE:
                raise LoadError(f"Cannot listen on port {port}: {error.strerror}.") from error
    raise LoadError(
        f"All ports in SAGEMAKER_SAFE_PORT_RANGE={ports[0]}-{ports[1]} are in use.",
        remedy="Each worker needs a port for TensorFlow Serving's REST API, which the handler uses: widen the range.",
    )


_NO_ERROR = {"error_code": "OK", "error_message": ""}


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()
