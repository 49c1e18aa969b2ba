"""What the container of an asynchronous endpoint gets of a request whose input is in S3."""

from __future__ import annotations

import io
import queue
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from gpuproof_emulator.execution.endpoints.async_queue import AsyncQueue
from gpuproof_emulator.protocol import AwsRequest, AwsResponse


@pytest.mark.parametrize(("header", "kind"), [("", "application/x-npy"), ("text/csv", "text/csv")])
def test_a_request_without_a_content_type_has_that_of_its_object(header: str, kind: str) -> None:
    # The SDK's AsyncPredictor passes no ContentType: it uploads the input with one.
    seen: queue.Queue[str] = queue.Queue()

    def invoke(request: AwsRequest, _timeout: float) -> AwsResponse:
        seen.put(request.environ["CONTENT_TYPE"])
        return AwsResponse(200, (("Content-Type", "text/plain"),), [b"done"])

    with mock_aws():
        s3: Any = boto3.client("s3", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
        s3.create_bucket(Bucket="data")
        s3.put_object(Bucket="data", Key="in", Body=b"array", ContentType="application/x-npy")
        clients: Any = SimpleNamespace(of_role=lambda _role, _service, _region: s3)
        config = {"OutputConfig": {"S3OutputPath": "s3://data/out"}}
        asked = AsyncQueue(clients, None, "endpoint", "us-east-1", config, invoke, lambda: True)
        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/endpoints/endpoint/async-invocations",
            "HTTP_X_AMZN_SAGEMAKER_INPUTLOCATION": "s3://data/in",
            "HTTP_X_AMZN_SAGEMAKER_CONTENT_TYPE": header,
        }
        answer = asked.submit(AwsRequest(environ, io.BytesIO(), 0, "request-1"))
        assert seen.get(timeout=300) == kind
        key = dict(answer.headers)["X-Amzn-SageMaker-OutputLocation"].removeprefix("s3://data/")
        s3.get_waiter("object_exists").wait(Bucket="data", Key=key, WaiterConfig={"Delay": 1})
        asked.close()
