"""AWS on loopback: moto's server, and a server that answers with whatever fault a test wants."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from gpuproof.catalogue.refresh import Refresh
from gpuproof.catalogue.refresh.clients import Clients
from gpuproof.catalogue.tables import Tables
from gpuproof.settings import boto3_session

Answer = Callable[[str, str], tuple[int, str]]
"""The response of a fake AWS to a region and a request's body: a status and a body."""

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Fake credentials, one attempt a call, and nothing of the user's own configuration."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    return monkeypatch


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    """Moto's server, once for all tests."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def answering(
    aws_environment: pytest.MonkeyPatch,
) -> Iterator[Callable[[Answer], None]]:
    """Start a stand-in for AWS that answers as the test wants."""
    servers: list[http.server.ThreadingHTTPServer] = []

    def start(answer: Answer) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
                # The signature names the region: Credential=KEY/DATE/REGION/SERVICE/aws4_request.
                region = self.headers["Authorization"].split("/")[2]
                status, body = answer(region, asked)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        aws_environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def dropping(aws_environment: pytest.MonkeyPatch) -> Iterator[None]:
    """A server that closes every connection without a word."""
    listener = socket.create_server(("127.0.0.1", 0))

    def drop() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.close()

    threading.Thread(target=drop, daemon=True).start()
    aws_environment.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
    yield
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


class Refreshing:
    """A refresh with a clock that stands and a sleep that is only written down."""

    def __init__(self, session: Callable[[], Any] = boto3_session) -> None:
        self.slept: list[float] = []
        self.messages: list[str] = []
        self.refresh = Refresh(
            Clients(session), Tables(), lambda: NOW, self.slept.append, self.messages.append
        )


@pytest.fixture
def refreshing() -> type[Refreshing]:
    """Make one with `refreshing()`, or with a session of its own."""
    return Refreshing
