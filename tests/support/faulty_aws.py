"""A proxy between boto3 and a server such as moto's, which answers in its place or disconnects, as a test requests.

with FaultyAws(moto.url) as aws:
    aws.fault("CreateTrainingJob", json_error("ThrottlingException"))
    Aws(...).call("sagemaker", "create_training_job", ...)
    assert aws.asked == ["CreateTrainingJob", "CreateTrainingJob"]
"""

from __future__ import annotations

import http.client
import http.server
import json
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass
class FakeResponse:
    """A response in place of AWS's."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    disconnects: bool = False
    """Close the connection without a response."""
    forwards: bool = False
    """Forward the request to the server behind nevertheless."""


@dataclass(frozen=True)
class Request:
    """A request to AWS."""

    method: str
    path: str
    operation: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def region(self) -> str:
        """The region that it was signed for; empty if it is unsigned."""
        scope = re.search(r"Credential=[^/]+/\d+/([a-z0-9-]+)/", self.headers.get("Authorization", ""))
        return scope[1] if scope is not None else ""

    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


Fault = FakeResponse | Callable[[Request], FakeResponse | None]


class FaultyAws:
    """One server for all services.

    Args:
        behind: where everything goes that has no fault; without it, everything has to have one.
    """

    def __init__(self, behind: str | None = None) -> None:
        self.asked: list[str] = []
        """The operations so far."""
        self.requests: list[Request] = []
        self._behind = urlsplit(behind).netloc if behind else None
        self._faults: list[tuple[str, Fault, int | None]] = []
        self._lock = threading.Lock()
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            # botocore waits a second for "100 Continue", which HTTP/1.0 does not know.
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def handle_one(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                response = owner._answer(self.command, self.path, dict(self.headers.items()), body)
                if response.disconnects:
                    self.close_connection = True
                    self.connection.shutdown(2)
                    return
                self.send_response_only(response.status)
                headers = {"Date": formatdate(usegmt=True), **response.headers}
                # A Content-Length that a test sets may announce more than is sent.
                headers.setdefault("Content-Length", str(len(response.body)))
                self.close_connection |= headers["Content-Length"] != str(len(response.body))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(response.body)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_one  # noqa: N815

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                """A client that hangs up is none of a test's business."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def fault(self, operation: str, answer: Fault, times: int | None = 1) -> None:
        """Answer an operation so: `CreateTrainingJob`, or `PUT` for S3; `times` None is for ever."""
        with self._lock:
            self._faults.append((operation, answer, times))

    def count(self, operation: str) -> int:
        """How often an operation was requested."""
        return self.asked.count(operation)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> FakeResponse:
        request = Request(method, path, _operation(method, headers, body), headers, body)
        with self._lock:
            self.asked.append(request.operation)
            self.requests.append(request)
        fault = self._take(request.operation)
        response = fault(request) if callable(fault) else fault
        if response is None:
            return self.forward(request)
        if response.forwards:
            self.forward(request)
        return response

    def _take(self, operation: str) -> Fault | None:
        with self._lock:
            for index, (name, answer, times) in enumerate(self._faults):
                if name == operation:
                    if times == 1:
                        del self._faults[index]
                    elif times is not None:
                        self._faults[index] = (name, answer, times - 1)
                    return answer
        return None

    def forward(self, request: Request) -> FakeResponse:
        assert self._behind, f"{request.operation} has neither a fault nor a server"
        connection = http.client.HTTPConnection(self._behind, timeout=120)
        try:
            # With the host that was signed.
            headers = {k: v for k, v in request.headers.items() if k.lower() != "expect"}
            connection.request(request.method, request.path, request.body, headers)
            answer = connection.getresponse()
            content = answer.read()
            hidden = ("connection", "transfer-encoding", "server", "date")
            kept = {k: v for k, v in answer.getheaders() if k.lower() not in hidden}
            if request.method != "HEAD":
                kept = {k: v for k, v in kept.items() if k.lower() != "content-length"}
            return FakeResponse(answer.status, content, kept)
        finally:
            connection.close()


def json_error(
    code: str, message: str = "said the server", status: int = 400, **headers: str
) -> FakeResponse:
    """An error as SageMaker and CloudWatch Logs write it."""
    body = json.dumps({"__type": code, "message": message}).encode()
    return FakeResponse(status, body, {"Content-Type": "application/x-amz-json-1.1", **headers})


def xml_error(code: str, message: str = "said the server", status: int = 400, **headers: str) -> FakeResponse:
    """An error as S3 writes it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return FakeResponse(status, body.encode(), {"Content-Type": "application/xml", **headers})


def query_error(code: str, message: str = "said the server", status: int = 400) -> FakeResponse:
    """An error as IAM and STS write it."""
    body = f"<ErrorResponse><Error><Code>{code}</Code><Message>{message}</Message></Error></ErrorResponse>"
    return FakeResponse(status, body.encode(), {"Content-Type": "text/xml"})


def json_answer(document: object) -> FakeResponse:
    """An answer as SageMaker writes it."""
    return FakeResponse(200, json.dumps(document).encode(), {"Content-Type": "application/x-amz-json-1.1"})


def disconnect(*, forwards: bool = False) -> FakeResponse:
    """The connection is lost after the request was sent."""
    return FakeResponse(disconnects=True, forwards=forwards)


def _operation(method: str, headers: Mapping[str, str], body: bytes) -> str:
    lower = {name.lower(): value for name, value in headers.items()}
    if target := lower.get("x-amz-target"):
        return target.rpartition(".")[2]
    if "x-www-form-urlencoded" in lower.get("content-type", ""):
        return parse_qs(body.decode())["Action"][0]
    # Tagging's and others' REST paths are not needed here; S3's operations go by their method.
    return re.sub(r"\W", "", method)
