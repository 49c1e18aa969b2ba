"""A request as IAM sees it: its operation, and its members by their path, such as `Tags.1.Key`."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, unquote

from gpuproof_emulator.protocol import AwsError, AwsRequest
from gpuproof_emulator.routing import OperationName, is_s3

_TAG = re.compile(r"(?:Tags?|tags)\.(?:member\.)?(\d+)\.[Kk]ey")
_TAG_SPECIFICATION = re.compile(r"TagSpecification\.(\d+)\.Tag\.(\d+)\.Key")
_S3_HEADERS = (
    "x-amz-object-ownership",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-tagging",
    "x-amz-tagging-directive",
)
_CBOR = "application/cbor"
_MOST_KEYS = 1 << 22  # bytes of a DeleteObjects request


@dataclass(frozen=True)
class Call:
    """A call of an operation.

    Args:
        service: the name of its endpoint.
        operation: such as `CreateModel`.
        region: of the request.
        members: of the request, by their path.
    """

    service: str
    operation: str
    region: str
    members: Mapping[str, str]

    def all(self, name: str) -> list[str]:
        """The values of a member; `*` in the name stands for each number of a list."""
        if "*" not in name:
            return [self.members[name]] if self.members.get(name) else []
        pattern = _pattern(name)
        return list(dict.fromkeys(value for key, value in self.members.items() if pattern.fullmatch(key)))

    def tags(self, kind: str = "") -> dict[str, str]:
        """The tags in the request.

        Args:
            kind: of EC2's resource, where a request has tags for several kinds.
        """
        found: dict[str, str] = {}
        for name, key in self.members.items():
            if _TAG.fullmatch(name):
                found[key] = self.members.get(f"{name[:-3]}{'v' if name.endswith('key') else 'V'}alue", "")
            elif (each := _TAG_SPECIFICATION.fullmatch(name)) and kind == self.members.get(
                f"TagSpecification.{each[1]}.ResourceType"
            ):
                found[key] = self.members.get(f"{name[:-3]}Value", "")
        return found


def call_of_request(request: AwsRequest, operation: OperationName) -> Call:
    """The call that an HTTP request makes."""
    return Call(operation.service, operation.operation, request.region, _members(request, operation))


def call_of_operation(service: str, operation: str, region: str, document: Mapping[str, Any]) -> Call:
    """The call with an operation's input, as boto3 takes it."""
    members = dict(_flatten(document))
    if service == "ec2":  # whose protocol names lists by their elements
        members |= {re.sub(r"^(\w+Id)s\.", r"\1.", name): value for name, value in members.items()}
    return Call(service, operation, region, members)


def _members(request: AwsRequest, operation: OperationName) -> dict[str, str]:
    if is_s3(operation.service):
        return _s3_members(request, operation.operation)
    if request.form:
        return request.form
    if operation.service == "sagemaker-runtime":
        return {"EndpointName": unquote(request.path.split("/")[2])}
    members = dict(_flatten(_document(request)))
    if operation.service == "scheduler":
        members["Name"] = unquote(request.path.rpartition("/")[2])
        members |= {name[:1].upper() + name[1:]: value for name, value in parse_qsl(request.query)}
    return members


def _document(request: AwsRequest) -> dict[str, Any]:
    if request.environ.get("CONTENT_TYPE", "").startswith(_CBOR) and request.size:
        from botocore.parsers import RpcV2CBORParser

        return RpcV2CBORParser().parse_data_item(io.BufferedReader(io.BytesIO(request.content())))  # type: ignore[arg-type]
    try:
        return request.document()
    except AwsError:
        return {}  # the operation itself reports it


def _s3_members(request: AwsRequest, operation: str) -> dict[str, str]:
    bucket, _, key = request.path.lstrip("/").partition("/")
    host = request.header("host").partition(":")[0]
    if host.endswith(".localhost") or ".s3." in host:
        bucket, key = (
            host.removesuffix(".localhost").partition(".s3.")[0].removesuffix(".s3"),
            request.path.lstrip("/"),
        )
    members = {"Bucket": bucket, "Key": key}
    members |= {name: value for name, value in parse_qsl(request.query) if name in ("prefix", "delimiter")}
    members |= {name: value for name in _S3_HEADERS if (value := request.header(name))}
    if source := request.header("x-amz-copy-source"):
        members["CopySource"] = unquote(source).lstrip("/").partition("?")[0]
    if operation == "DeleteObjects" and request.size <= _MOST_KEYS:
        members |= {f"Key.{number}": key for number, key in enumerate(_deleted_keys(request.content()), 1)}
    return members


def _deleted_keys(body: bytes) -> Iterator[str]:
    for key in re.findall(r"<Key>(.*?)</Key>", body.decode("utf-8", "replace"), re.DOTALL):
        yield html.unescape(key)


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, item in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _flatten(item, f"{path}.{name}" if path else str(name))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value, 1):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            yield from _flatten(item, f"{path}.{number}")
    elif value is not None:
        yield path, str(value)


@cache
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(r"\d+".join(map(re.escape, name.split("*"))))
