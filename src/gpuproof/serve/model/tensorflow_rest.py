"""TensorFlow Serving's REST API on loopback, for handlers that call it themselves (`requests.post(context.rest_uri)`)."""

from __future__ import annotations

import errno
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpuproof.serve.errors import LoadError, RequestError
from gpuproof.serve.model.interface import Request


class RestApi:
    """Answers `POST /v1/models/NAME:predict` with a model's predictions, and `GET /v1/models/NAME` with its state.

    Args:
        model: a `TensorFlowServingModel`.
        ports: the first and the last that may be listened at; any free one if not given.

    Raises:
        LoadError: all of these ports are taken.
    """

    def __init__(self, model: Any, ports: tuple[int, int] | None = None) -> None:
        outer = self
        self._model = model

        class Answerer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self._say(*outer.answer(self.path, body))

            def do_GET(self) -> None:
                self._say(200, _STATE)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as in http.server
                """Says nothing: the server logs each request once, in its own words."""

            def _say(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = _listening(Answerer, ports)
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, daemon=True, name="tensorflow-rest"
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Status and body for one request, as TensorFlow Serving gives them."""
        if not path.endswith(":predict"):
            return 404, _error("only :predict is served here")
        try:
            tensors = self._model.read_rest(body)
            return 200, self._model.write_rest(self._model.predict(tensors, Request()))
        except RequestError as error:
            return 400, _error(error.message)
        except Exception as error:  # noqa: BLE001 - the handler that asked is told, and decides
            return 500, _error(f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _listening(answerer: type[BaseHTTPRequestHandler], ports: tuple[int, int] | None) -> ThreadingHTTPServer:
    if ports is None:
        return ThreadingHTTPServer(("127.0.0.1", 0), answerer)
    for port in range(ports[0], ports[1] + 1):
        try:
            return ThreadingHTTPServer(("127.0.0.1", port), answerer)
        except OSError as error:  # noqa: PERF203 - each predictor of a server takes the next
            if error.errno != errno.EADDRINUSE:
                raise LoadError(f"Port {port} cannot be listened at: {error.strerror}.") from error
    raise LoadError(
        f"All ports of SAGEMAKER_SAFE_PORT_RANGE={ports[0]}-{ports[1]} are taken.",
        remedy="The handler asks TensorFlow Serving's REST API, for which each predictor needs a port: widen the range.",
    )


_STATE = json.dumps(
    {"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK"}}]}
).encode()


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()
