"""Invocations of a container that is slow, disconnects, is down or returns an error fail as in SageMaker Runtime."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuproof_emulator.execution.endpoints.invocations import InvocationTarget, encode_event, forward
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse


def test_a_container_that_takes_too_long_is_a_model_error() -> None:
    with _container(None) as path:
        response = _error(forward(_request(), _target(path, timeout=0.2)))
    assert response["ErrorCode"] == "ModelError"
    assert response["Message"].startswith(
        "Your invocation timed out while waiting for a response from container primary"
    )


def test_a_container_that_hangs_up_is_a_model_error() -> None:
    with _container(b"") as path:
        response = _error(forward(_request(), _target(path)))
    assert response["OriginalStatusCode"] == 502
    assert "closed the connection" in response["OriginalMessage"]


@pytest.mark.parametrize(
    ("status", "whose"), [(400, "client"), (413, "client"), (500, "server"), (503, "server")]
)
def test_an_error_response_is_reported_with_its_status_and_message(status: int, whose: str) -> None:
    with _container(f"HTTP/1.1 {status} X\r\nContent-Length: 4\r\n\r\nwhy!".encode()) as path:
        response = _error(forward(_request(), _target(path)))
    assert (response["OriginalStatusCode"], response["OriginalMessage"]) == (status, "why!")
    assert response["Message"].startswith(
        f'Received {whose} error ({status}) from primary with message "why!"'
    )
    assert response["LogStreamArn"].endswith(":log-group:/aws/sagemaker/Endpoints/e:log-stream:v1/i-0")


def test_a_request_to_an_absent_container_can_be_retried() -> None:
    with _container(None) as path:
        pass
    with pytest.raises(AwsError, match="ServiceUnavailable") as caught:
        forward(_request(), _target(path))
    assert caught.value.status == 503


def test_headers_of_sagemaker_pass_both_ways_and_the_others_stay() -> None:
    seen: list[bytes] = []
    answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nX-Amzn-SageMaker-Custom-Attributes: back\r\nServer: s\r\n"
    )
    with _container(answer + b"Content-Length: 2\r\n\r\nok", seen) as path:
        response = forward(
            _request(
                CONTENT_TYPE="text/csv",
                HTTP_ACCEPT="a/b",
                HTTP_AUTHORIZATION="secret",
                HTTP_X_AMZN_SAGEMAKER_CUSTOM_ATTRIBUTES="there",
                HTTP_X_AMZN_SAGEMAKER_TARGET_VARIANT="v1",
            ),
            _target(path),
        )
    sent = seen[0].lower()
    assert b"x-amzn-sagemaker-custom-attributes: there\r\n" in sent
    assert b"accept: a/b\r\n" in sent
    assert b"content-type: text/csv\r\n" in sent
    assert b"secret" not in sent
    assert b"target-variant" not in sent
    headers = {name.lower(): value for name, value in response.headers}
    assert headers["content-type"] == "a/b"
    assert headers["x-amzn-sagemaker-custom-attributes"] == "back"
    assert headers["x-amzn-invoked-production-variant"] == "v1"
    assert "server" not in headers


def test_an_event_is_read_by_botocore() -> None:
    from botocore.eventstream import EventStreamBuffer

    buffer = EventStreamBuffer()
    buffer.add_data(encode_event({":message-type": "event", ":event-type": "PayloadPart"}, b"payload"))
    (message,) = buffer
    assert (message.headers, message.payload) == (
        {":message-type": "event", ":event-type": "PayloadPart"},
        b"payload",
    )


@contextlib.contextmanager
def _container(answer: bytes | None, seen: list[bytes] | None = None) -> Iterator[Path]:
    """One that answers each connection with these bytes and closes it, or, with None, never; its socket."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder) / "socket"
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        received = connection.recv(65536)
                        if seen is not None:
                            seen.append(received)
                        connection.sendall(answer or b"")

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield path
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)


def _target(path: Path, timeout: float = 60.0) -> InvocationTarget:
    return InvocationTarget(path, "v1", "us-east-1", "/aws/sagemaker/Endpoints/e", "v1/i-0", timeout)


def _request(**environ: str) -> AwsRequest:
    return AwsRequest.read(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/endpoints/e/invocations",
            "CONTENT_LENGTH": "2",
            "wsgi.input": io.BytesIO(b"hi"),
            **environ,
        }
    )


def _error(answer: AwsResponse) -> dict[str, Any]:
    assert answer.status == 424
    assert ("x-amzn-errortype", "ModelError") in answer.headers
    return json.loads(b"".join(answer.body))
