"""Requests are identified by service and operation."""

from __future__ import annotations

import io
from typing import Any

import pytest

from gpuproof_emulator.protocol import AwsRequest
from gpuproof_emulator.routing import OperationName, identify_operation


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "service", "operation"),
    [
        ("PUT", "/b/k", "", {}, "s3", "PutObject"),
        ("PUT", "/b/k", "", {"HTTP_X_AMZ_COPY_SOURCE": "b/other"}, "s3", "CopyObject"),
        ("PUT", "/b/k", "partNumber=1&uploadId=u", {}, "s3", "UploadPart"),
        ("POST", "/b/k", "uploads", {}, "s3", "CreateMultipartUpload"),
        ("GET", "/b", "list-type=2&prefix=a", {}, "s3", "ListObjectsV2"),
        ("HEAD", "/b", "", {}, "s3", "HeadBucket"),
        ("GET", "/", "", {}, "s3", "ListBuckets"),
        ("PUT", "/k", "", {"HTTP_HOST": "b.localhost:4599"}, "s3", "PutObject"),
        ("POST", "/", "Action=GetCallerIdentity", {}, "s3", "GetCallerIdentity"),
        ("POST", "/", "", {"HTTP_X_AMZ_TARGET": "SageMaker.ListModels"}, "sagemaker", "ListModels"),
        ("POST", "/endpoints/e/invocations", "", {}, "sagemaker-runtime", "InvokeEndpoint"),
        ("POST", "/endpoints/e/async-invocations", "", {}, "sagemaker-runtime", "InvokeEndpointAsync"),
    ],
)
def test_requests_are_called_by_their_operations(
    method: str, path: str, query: str, headers: dict[str, str], service: str, operation: str
) -> None:
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "wsgi.input": io.BytesIO(),
        **headers,
    }
    assert identify_operation(AwsRequest.read(environ)) == (service, operation)


def test_only_what_reads_leaves_no_trace_in_the_journal() -> None:
    reading = ("GetObject", "ListBuckets", "DescribeLogStreams", "HeadObject", "BatchGetImage")
    changing = ("PutObject", "CreateBucket", "AssumeRole", "PutLogEvents", "RunInstances", "DeleteObject")
    assert all(OperationName("x", name).read_only for name in reading)
    assert not any(OperationName("x", name).read_only for name in changing)
