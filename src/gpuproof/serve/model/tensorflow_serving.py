"""Handlers written for AWS's TensorFlow Serving container: `input_handler` and `output_handler`, or `handler`.

Source: the README of sagemaker-tensorflow-serving-container, "Pre/Post-Processing".
"""

from __future__ import annotations

import errno
import io
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpuproof.serve import media_types
from gpuproof.serve.codecs import arrays, registry, tensorflow_json
from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.interface import Request, Response
from gpuproof.serve.model import user_errors
from gpuproof.serve.model.context import ServingContext, serving_context
from gpuproof.serve.model.served_model import ServedModel

_CONTEXT = "serving context"


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
        return self.read_rest(body.encode() if isinstance(body, str) else body)

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

    def read_rest(self, body: Any) -> Any:
        """Read a body of the REST API as tensors. Raises RequestError."""
        framework: Any = self._framework
        try:
            return framework.read_tensors(body, media_types.JSON)
        except RecursionError:
            raise arrays.too_deep() from None

    def write_rest(self, prediction: Any) -> bytes:
        """Write a prediction as a response of the REST API."""
        return registry.write_body(tensorflow_json.write(prediction), media_types.JSON)

    def unload(self) -> None:
        if self._rest is not None:
            self._rest.close()
        super().unload()

    def _serving_context(self, request: Request) -> ServingContext:
        context = request.notes.get(_CONTEXT)
        if context is None:
            rest = self._rest.address if self._rest is not None else ""
            context = serving_context(self.name, request, rest, self._settings.default_accept)
            if context.method != "predict":
                raise RequestError(400, f"tfs-method={context.method[:40]} is not supported, only predict.")
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

    Responds to `POST /v1/models/NAME:predict` with predictions, and to `GET /v1/models/NAME` with the model's status.

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
                self._send(200, _STATUS)

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
        if not path.endswith(":predict"):
            return 404, _error("only :predict is supported")
        try:
            tensors = self._model.read_rest(body)
            return 200, self._model.write_rest(self._model.predict(tensors, Request()))
        except RequestError as error:
            return 400, _error(error.message)
        except Exception as error:  # noqa: BLE001 - reported to the handler that sent the request
            return 500, _error(f"{type(error).__name__}: {error}")

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


_STATUS = json.dumps(
    {"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK"}}]}
).encode()


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()
