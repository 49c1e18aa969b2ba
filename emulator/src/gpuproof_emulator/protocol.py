"""Requests as AWS clients send them, and responses in AWS's protocols."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import re
import tempfile
import time
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

JSON_TYPE = "application/x-amz-json-1.1"
DEFAULT_REGION = "us-east-1"
ACCOUNT = "123456789012"
"""The account of every credential; moto's own default, so that both agree."""

_IN_MEMORY = 1 << 20  # bytes of a body; larger ones are kept in a file
_CHUNK = 1 << 20
_MAX_DECOMPRESSED = 1 << 26  # bytes


class AwsError(Exception):
    """An error response of AWS.

    Args:
        code: such as `ValidationException`.
        message: AWS's message.
        status: the HTTP status.
    """

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status


@dataclass(frozen=True)
class AwsResponse:
    """The response to a request."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: Iterable[bytes]


@dataclass
class AwsRequest:
    """One request, read completely.

    Args:
        environ: the WSGI environment, whose input is `body`.
        body: the whole body, positioned at its start.
        size: size of the body, in bytes.
    """

    environ: dict[str, Any]
    body: IO[bytes]
    size: int
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @classmethod
    def read(cls, environ: dict[str, Any]) -> AwsRequest:
        """Read a request with its body, which the new environment's input can read again."""
        body = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed with the request
        size = _copy_body(environ, body)
        environ = {
            **environ,
            "wsgi.input": body,
            "wsgi.input_terminated": True,
            "CONTENT_LENGTH": str(size),
        }
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        return cls(environ, body, size)

    @classmethod
    def without_body(cls, environ: dict[str, Any]) -> AwsRequest:
        """A request whose body is ignored."""
        body = io.BytesIO()
        return cls({**environ, "wsgi.input": body, "CONTENT_LENGTH": "0"}, body, 0)

    def with_body(self, body: bytes) -> AwsRequest:
        """The same request with another body."""
        stream = io.BytesIO(body)
        environ = {**self.environ, "wsgi.input": stream, "CONTENT_LENGTH": str(len(body))}
        return dataclasses.replace(self, environ=environ, body=stream, size=len(body))

    def decompressed(self) -> AwsRequest:
        """The same request without its `Content-Encoding: gzip`, with which botocore sends large PutMetricData requests.

        Raises:
            AwsError: the body is not gzip, or too large.
        """
        if self.header("content-encoding") != "gzip":
            return self
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(self.content())) as file:
                body = file.read(_MAX_DECOMPRESSED + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise AwsError("SerializationException", f"The body is not gzip: {error}") from error
        if len(body) > _MAX_DECOMPRESSED:
            raise AwsError("RequestEntityTooLargeException", "The decompressed body is too large.", 413)
        request = self.with_body(body)
        del request.environ["HTTP_CONTENT_ENCODING"]
        return request

    def content(self) -> bytes:
        """The whole body."""
        self.body.seek(0)
        content = self.body.read()
        self.body.seek(0)
        return content

    def document(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            AwsError: it is not a JSON object.
        """
        try:
            document = json.loads(self.content() or b"{}")
        except ValueError as error:
            raise AwsError("SerializationException", f"The body is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise AwsError("SerializationException", "The body is not a JSON object.")
        return document

    @cached_property
    def form(self) -> dict[str, str]:
        """The parameters of a request in a query protocol; empty for other protocols."""
        words = self.query
        if self.environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
            words = f"{words}&{self.content().decode('utf-8', 'replace')}"
        if "Action=" not in words:
            return {}
        return {name: values[-1] for name, values in parse_qs(words, keep_blank_values=True).items()}

    @property
    def method(self) -> str:
        return self.environ["REQUEST_METHOD"]

    @property
    def path(self) -> str:
        # WSGI decodes the path as Latin-1: PEP 3333.
        return self.environ.get("PATH_INFO", "").encode("latin-1", "replace").decode("utf-8", "replace")

    @property
    def query(self) -> str:
        return self.environ.get("QUERY_STRING", "")

    def header(self, name: str) -> str:
        """A header's value; empty if the header is missing."""
        return self.environ.get(f"HTTP_{name.upper().replace('-', '_')}", "")

    @cached_property
    def scope(self) -> tuple[str, str, str]:
        """Access key, region and service of the signature (AWS Signature Version 4); empty if unsigned."""
        found = re.search(r"Credential=([^/,\s]+)/\d+/([^/]+)/([^/]+)/", self.header("authorization"))
        if found is None:
            credential = parse_qs(self.query).get("X-Amz-Credential", [""])[0]
            found = re.match(r"([^/]+)/\d+/([^/]+)/([^/]+)/", credential)
        return (found[1], found[2], found[3]) if found else ("", "", "")

    @property
    def region(self) -> str:
        return self.scope[1] or DEFAULT_REGION

    @property
    def target(self) -> tuple[str, str]:
        """Service prefix and operation of a request in a JSON protocol, such as `SageMaker`, `CreateModel`."""
        prefix, _, operation = self.header("x-amz-target").rpartition(".")
        return prefix, operation

    @property
    def user_agent(self) -> str:
        return self.header("user-agent")


def now() -> float:
    """Seconds since the epoch, to the millisecond, as in AWS's responses."""
    return round(time.time(), 3)


def json_response(request: AwsRequest, document: Mapping[str, Any]) -> AwsResponse:
    """A successful response in a JSON protocol."""
    return _json(request, 200, document, ())


def json_error(request: AwsRequest, error: AwsError) -> AwsResponse:
    """An error in a JSON protocol."""
    document = {"__type": error.code, "message": error.message, "Message": error.message}
    return _json(request, error.status, document, (("x-amzn-errortype", error.code),))


def xml_error(request: AwsRequest, error: AwsError, *, s3: bool) -> AwsResponse:
    """An error in the format of S3 or of a query protocol (IAM, STS, EC2)."""
    details = f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
    if s3:
        text = f"<Error>{details}<RequestId>{request.request_id}</RequestId></Error>"
    else:
        text = (
            f"<ErrorResponse><Error><Type>Sender</Type>{details}</Error>"
            f"<RequestId>{request.request_id}</RequestId></ErrorResponse>"
        )
    return xml_response(request, text, error.status)


def xml_response(request: AwsRequest, text: str, status: int = 200) -> AwsResponse:
    """XML with AWS's headers; without a body in response to HEAD."""
    body = b"" if request.method == "HEAD" else f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
    return _response(request, status, "text/xml", body, ())


def _json(
    request: AwsRequest, status: int, document: Mapping[str, Any], headers: tuple[tuple[str, str], ...]
) -> AwsResponse:
    return _response(request, status, JSON_TYPE, json.dumps(document).encode(), headers)


def _response(
    request: AwsRequest, status: int, kind: str, body: bytes, headers: tuple[tuple[str, str], ...]
) -> AwsResponse:
    common = (
        ("Content-Type", kind),
        ("Content-Length", str(len(body))),
        ("x-amzn-RequestId", request.request_id),
    )
    return AwsResponse(status, (*common, *headers), [body])


def _copy_body(environ: Mapping[str, Any], sink: IO[bytes]) -> int:
    source = environ["wsgi.input"]
    chunked = environ.get("wsgi.input_terminated") and "chunked" in environ.get("HTTP_TRANSFER_ENCODING", "")
    remaining = None if chunked else int(environ.get("CONTENT_LENGTH") or 0)
    size = 0
    while remaining is None or remaining > 0:
        part = source.read(_CHUNK if remaining is None else min(_CHUNK, remaining))
        if not part:
            break
        sink.write(part)
        size += len(part)
        remaining = None if remaining is None else remaining - len(part)
    sink.seek(0)
    return size
