"""Forwards an invocation to a model's container, with SageMaker Runtime's headers, errors and event stream.

Sources: botocore's service model `sagemaker-runtime`;
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
"""

from __future__ import annotations

import contextlib
import http.client
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuproof_emulator.execution.endpoints.unix_connection import UnixConnection
from gpuproof_emulator.protocol import ACCOUNT, AwsError, AwsRequest, AwsResponse

RESPONSE_TIMEOUT_S = 60.0
"""Seconds within which a container must respond."""

_REQUEST_PREFIX = "HTTP_X_AMZN_SAGEMAKER_"
_NOT_FORWARDED = ("target-variant", "accept", "content-type")
_HEADER_PREFIX = "x-amzn-sagemaker-"
_STREAMED = "/invocations-response-stream"
_MAX_PART = 1 << 16
_PART = "PayloadPart"
_ADVICE = "See the CloudWatch log group {group} in account {account} for more information."


@dataclass(frozen=True)
class InvocationTarget:
    """The container to which an invocation goes.

    Args:
        socket: the Unix socket on which it listens.
        variant: name of the production variant.
        region: the endpoint's region.
        group: its log group.
        stream: its log stream.
        timeout: seconds within which it must respond.
    """

    socket: Path
    variant: str
    region: str
    group: str
    stream: str
    timeout: float = RESPONSE_TIMEOUT_S


@dataclass(frozen=True)
class ModelResponse(AwsResponse):
    """A response to an invocation.

    Args:
        model_status: the HTTP status of the container's own response; 0 if it did not respond in time.
    """

    model_status: int = 200


def forward(request: AwsRequest, target: InvocationTarget) -> AwsResponse:
    """Forward an invocation to a container, and return the response as SageMaker Runtime does.

    Raises:
        AwsError: no server listens on the socket.
    """
    connection = UnixConnection(target.socket, target.timeout)
    try:
        # A container may respond and close before it has read the whole body.
        with contextlib.suppress(BrokenPipeError):
            connection.request("POST", "/invocations", request.content(), _headers(request))
        response = connection.getresponse()
        if response.status >= 300:
            return _model_error(request, target, response.status, response.read())
        if request.path.endswith(_STREAMED):
            headers = _response_headers(request, target, response, "X-Amzn-SageMaker-Content-Type")
            kind = ("Content-Type", "application/vnd.amazon.eventstream")
            return AwsResponse(200, (kind, *headers), _events(connection, response))
        content = response.read()
    except TimeoutError:
        connection.close()
        return _timed_out(request, target)
    except ConnectionRefusedError as error:
        connection.close()
        raise AwsError("ServiceUnavailable", "The container is restarting.", 503) from error
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return _model_error(request, target, 502, f"the container closed the connection: {error}".encode())
    connection.close()
    length = ("Content-Length", str(len(content)))
    return AwsResponse(
        200, (length, *_response_headers(request, target, response, "Content-Type")), [content]
    )


def encode_event(headers: dict[str, str], payload: bytes) -> bytes:
    """One message of an event stream: https://smithy.io/2.0/aws/amazon-eventstream.html"""
    encoded = b"".join(_event_header(name, value) for name, value in headers.items())
    prelude = (16 + len(encoded) + len(payload)).to_bytes(4, "big") + len(encoded).to_bytes(4, "big")
    message = prelude + zlib.crc32(prelude).to_bytes(4, "big") + encoded + payload
    return message + zlib.crc32(message).to_bytes(4, "big")


def _event_header(name: str, value: str) -> bytes:
    text = value.encode()
    # Type 7 is a string.
    return bytes([len(name)]) + name.encode() + b"\x07" + len(text).to_bytes(2, "big") + text


def _headers(request: AwsRequest) -> dict[str, str]:
    """The headers of a request that are forwarded to the container."""
    headers = {
        _HEADER_PREFIX + name: value
        for key, value in request.environ.items()
        if key.startswith(_REQUEST_PREFIX)
        and (name := key.removeprefix(_REQUEST_PREFIX).lower().replace("_", "-")) not in _NOT_FORWARDED
    }
    accept = request.header("x-amzn-sagemaker-accept" if request.path.endswith(_STREAMED) else "accept")
    if accept:
        headers["Accept"] = accept
    if kind := request.environ.get("CONTENT_TYPE"):
        headers["Content-Type"] = kind
    return headers


def _response_headers(
    request: AwsRequest, target: InvocationTarget, response: http.client.HTTPResponse, content_type: str
) -> tuple[tuple[str, str], ...]:
    passed = [
        (name, value) for name, value in response.getheaders() if name.lower().startswith(_HEADER_PREFIX)
    ]
    return (
        ("x-amzn-RequestId", request.request_id),
        ("x-Amzn-Invoked-Production-Variant", target.variant),
        (content_type, response.getheader("Content-Type") or "application/octet-stream"),
        *passed,
    )


def _events(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[bytes]:
    part = {
        ":event-type": _PART,
        ":content-type": "application/octet-stream",
        ":message-type": "event",
    }
    try:
        while content := response.read1(_MAX_PART):
            yield encode_event(part, content)
        if response.length:
            yield _stream_error(f"{response.length} bytes are missing")
    except (OSError, http.client.HTTPException) as error:
        yield _stream_error(str(error) or type(error).__name__)
    finally:
        connection.close()


def _stream_error(why: str) -> bytes:
    headers = {
        ":exception-type": "ModelStreamError",
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    document = {"Message": f"The container's response ended early: {why}", "ErrorCode": "StreamBroken"}
    return encode_event(headers, json.dumps(document).encode())


def _model_error(request: AwsRequest, target: InvocationTarget, status: int, content: bytes) -> AwsResponse:
    text = content.decode("utf-8", "replace")
    side = "client" if status < 500 else "server"
    advice = _ADVICE.format(group=target.group, account=ACCOUNT)
    message = f'Received {side} error ({status}) from primary with message "{text}". {advice}'
    return _error(request, target, 424, message, status, text)


def _timed_out(request: AwsRequest, target: InvocationTarget) -> AwsResponse:
    message = (
        "Your invocation timed out while waiting for a response from container primary. Review the latency metrics for "
        "each container in Amazon CloudWatch, resolve the issue, and try again."
    )
    return _error(request, target, 424, message, 0, "")


def _error(
    request: AwsRequest, target: InvocationTarget, status: int, message: str, original: int, text: str
) -> AwsResponse:
    document = {
        "ErrorCode": "ModelError",
        "Message": message,
        "OriginalStatusCode": original,
        "OriginalMessage": text,
        "LogStreamArn": f"arn:aws:logs:{target.region}:{ACCOUNT}:log-group:{target.group}:log-stream:{target.stream}",
    }
    body = json.dumps(document).encode()
    headers = (
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("x-amzn-RequestId", request.request_id),
        ("x-amzn-errortype", "ModelError"),
    )
    return ModelResponse(status, headers, [body], original)
