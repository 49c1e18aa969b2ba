"""AWS on loopback for the backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.s3_server import CREDENTIALS, Answer, BadServer, Bucket, MotoServer


@pytest.fixture(scope="session")
def moto_server() -> Iterator[MotoServer]:
    """Moto's server, once for all tests."""
    server = MotoServer()
    yield server
    server.stop()


@pytest.fixture
def aws_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Fake credentials, and nothing of the user's own configuration."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_SESSION_TOKEN", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def bucket(moto_server: MotoServer, aws_environment: pytest.MonkeyPatch) -> Bucket:
    """An empty bucket, where the environment's endpoint leads."""
    aws_environment.setenv("AWS_ENDPOINT_URL", moto_server.url)
    return moto_server.bucket()


@pytest.fixture
def answering(aws_environment: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], None]]:
    """Let the environment's endpoint answer as the test wants."""
    servers: list[BadServer] = []

    def start(answer: Answer) -> None:
        servers.append(BadServer(answer))
        aws_environment.setenv("AWS_ENDPOINT_URL_S3", servers[-1].url)

    yield start
    for server in servers:
        server.stop()
