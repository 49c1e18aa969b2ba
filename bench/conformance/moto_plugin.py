"""A pytest plugin that runs moto's tests against the emulator, with what their requests refer to.

moto itself accepts any role, bucket and image. Here, what AWS requires is created just before a request names it.
"""

from __future__ import annotations

import json
import os
import re
import urllib.request
from collections.abc import Iterator
from functools import cache
from typing import Any

import boto3
import botocore.client
import botocore.session
from moto.core import models

_EMULATOR: dict[str, str] = json.loads(os.environ["CONFORMANCE_EMULATOR"])
_URL, _TOKEN = _EMULATOR["AWS_ENDPOINT_URL"], _EMULATOR["AWS_SECRET_ACCESS_KEY"]
_ROLE = re.compile(r"arn:aws:iam::123456789012:role/.+")
_VALID_ROLE = "arn:aws:iam::123456789012:role/FakeRole"
_TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "sagemaker.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
)


def pytest_configure() -> None:
    """Lead moto's decorators to the emulator."""
    # Each client would read the descriptions of its service again.
    botocore.session.create_loader = cache(botocore.session.create_loader)
    init = models.MockAWS.__init__

    def with_credentials(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self._fake_creds = {"AWS_ACCESS_KEY_ID": "emulator", "AWS_SECRET_ACCESS_KEY": _TOKEN}

    models.MockAWS.__init__ = with_credentials  # pyright: ignore[reportAttributeAccessIssue]
    models.ServerModeMockAWS.reset = lambda _self: _reset()  # pyright: ignore[reportAttributeAccessIssue]
    call = botocore.client.BaseClient._make_api_call  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportUnknownVariableType]

    def provided(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        if self.meta.service_model.service_name == "sagemaker" and operation.startswith("Create"):
            _provide(parameters)
        return call(self, operation, parameters)

    botocore.client.BaseClient._make_api_call = provided  # noqa: SLF001  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


def _reset() -> None:
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    request = urllib.request.Request(f"{_URL}/_gpuproof/reset", b"", headers, method="POST")
    with urllib.request.urlopen(request, timeout=300) as response:
        response.read()


def _provide(parameters: dict[str, Any]) -> None:
    """Create the roles, buckets and input data that a request names; its role gets a valid name."""
    for name in ("RoleArn", "ExecutionRoleArn"):
        if not _ROLE.fullmatch(parameters.get(name, _VALID_ROLE)):
            parameters[name] = _VALID_ROLE
    for name, value in _texts(parameters, ""):
        if name.endswith("RoleArn") and value.startswith("arn:"):
            _ignore_existing(
                "iam", "create_role", RoleName=value.rpartition("/")[2], AssumeRolePolicyDocument=_TRUST
            )
        elif value.startswith("s3://"):
            bucket, _, key = value.removeprefix("s3://").partition("/")
            _ignore_existing("s3", "create_bucket", Bucket=bucket)
            if "Output" not in name:
                _ignore_existing("s3", "put_object", Bucket=bucket, Key=key or "data", Body=b"data")


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
    elif isinstance(value, str):
        yield path, value


@cache
def _client(service: str) -> Any:
    return boto3.Session("emulator", _TOKEN, region_name="us-east-1").client(service, endpoint_url=_URL)


def _ignore_existing(service: str, operation: str, **request: Any) -> None:
    client = _client(service)
    try:
        getattr(client, operation)(**request)
    except client.exceptions.ClientError:
        return
