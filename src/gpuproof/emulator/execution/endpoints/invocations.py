"""One invocation on its way to a model's container and back, with the runtime's own headers, errors and event stream.

Sources: botocore's service model `sagemaker-runtime`;
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-inference-code.html
"""

from __future__ import annotations

import http.client
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.emulator.protocol import ACCOUNT, Answer, AwsError, AwsRequest

RESPONSE_S = 60.0
"""How long a container may take for an answer."""

_TARGETS = "HTTP_X_AMZN_SAGEMAKER_"
_KEPT_BACK = ("target-variant", "accept", "content-type")
_OURS = "x-amzn-sagemaker-"
_STREAMED = "/invocations-response-stream"
_MOST_AT_ONCE = 1 << 16
_PART = "PayloadPart"
_ADVICE = "See the CloudWatch log group {group} in account {account} for more information."


@dataclass(frozen=True)
class Target:
    """The container that is asked.

    Args:
        port: where it listens on loopback.
        variant: whose it is.
        region: where the endpoint is.
        group: its log group.
        stream: its log stream.
        patience: seconds that it may take for an answer.
    """

    port: int
    variant: str
    region: str
    group: str
    stream: str
    patience: float = RESPONSE_S


def forward(request: AwsRequest, target: Target) -> Answer:
    """Ask a container, and answer as the runtime would.

    Raises:
        AwsError: nobody listens there.
    """
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=target.patience)
    try:
        connection.request("POST", "/invocations", request.content(), _headers(request))
        response = connection.getresponse()
        if response.status >= 300:
            return _model_error(request, target, response.status, response.read())
        if request.path.endswith(_STREAMED):
            headers = _answer_headers(request, target, response, "X-Amzn-SageMaker-Content-Type")
            kind = ("Content-Type", "application/vnd.amazon.eventstream")
            return Answer(200, (kind, *headers), _events(connection, response))
        content = response.read()
    except TimeoutError:
        connection.close()
        return _timed_out(request, target)
    except ConnectionRefusedError as error:
        connection.close()
        raise AwsError("ServiceUnavailable", "The container is being started again.", 503) from error
    except (OSError, http.client.HTTPException) as error:
        connection.close()
        return _model_error(request, target, 502, f"the container hung up: {error}".encode())
    connection.close()
    length = ("Content-Length", str(len(content)))
    return Answer(200, (length, *_answer_headers(request, target, response, "Content-Type")), [content])


def event(headers: dict[str, str], payload: bytes) -> bytes:
    """One message of an event stream: https://smithy.io/2.0/aws/amazon-eventstream.html"""
    told = b"".join(_event_header(name, value) for name, value in headers.items())
    prelude = (16 + len(told) + len(payload)).to_bytes(4, "big") + len(told).to_bytes(4, "big")
    message = prelude + zlib.crc32(prelude).to_bytes(4, "big") + told + payload
    return message + zlib.crc32(message).to_bytes(4, "big")


def _event_header(name: str, value: str) -> bytes:
    text = value.encode()
    # Kind 7 is a string.
    return bytes([len(name)]) + name.encode() + b"\x07" + len(text).to_bytes(2, "big") + text


def _headers(request: AwsRequest) -> dict[str, str]:
    """What the container hears of a request's headers."""
    headers = {
        _OURS + name: value
        for key, value in request.environ.items()
        if key.startswith(_TARGETS)
        and (name := key.removeprefix(_TARGETS).lower().replace("_", "-")) not in _KEPT_BACK
    }
    accept = request.header("x-amzn-sagemaker-accept" if request.path.endswith(_STREAMED) else "accept")
    if accept:
        headers["Accept"] = accept
    if kind := request.environ.get("CONTENT_TYPE"):
        headers["Content-Type"] = kind
    return headers


def _answer_headers(
    request: AwsRequest, target: Target, response: http.client.HTTPResponse, content_type: str
) -> tuple[tuple[str, str], ...]:
    passed = [(name, value) for name, value in response.getheaders() if name.lower().startswith(_OURS)]
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
        while content := response.read1(_MOST_AT_ONCE):
            yield event(part, content)
        if response.length:
            yield _broken(f"{response.length} bytes are missing")
    except (OSError, http.client.HTTPException) as error:
        yield _broken(str(error) or type(error).__name__)
    finally:
        connection.close()


def _broken(why: str) -> bytes:
    headers = {
        ":exception-type": "ModelStreamError",
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    document = {"Message": f"The container's answer broke off: {why}", "ErrorCode": "StreamBroken"}
    return event(headers, json.dumps(document).encode())


def _model_error(request: AwsRequest, target: Target, status: int, content: bytes) -> Answer:
    said = content.decode("utf-8", "replace")
    whose = "client" if status < 500 else "server"
    advice = _ADVICE.format(group=target.group, account=ACCOUNT)
    message = f'Received {whose} error ({status}) from primary with message "{said}". {advice}'
    return _error(request, target, 424, message, status, said)


def _timed_out(request: AwsRequest, target: Target) -> Answer:
    message = (
        "Your invocation timed out while waiting for a response from container primary. Review the latency metrics for "
        "each container in Amazon CloudWatch, resolve the issue, and try again."
    )
    return _error(request, target, 424, message, 0, "")


def _error(
    request: AwsRequest, target: Target, status: int, message: str, original: int, said: str
) -> Answer:
    document = {
        "ErrorCode": "ModelError",
        "Message": message,
        "OriginalStatusCode": original,
        "OriginalMessage": said,
        "LogStreamArn": f"arn:aws:logs:{target.region}:{ACCOUNT}:log-group:{target.group}:log-stream:{target.stream}",
    }
    body = json.dumps(document).encode()
    headers = (
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
        ("x-amzn-RequestId", request.request_id),
        ("x-amzn-errortype", "ModelError"),
    )
    return Answer(status, headers, [body])
