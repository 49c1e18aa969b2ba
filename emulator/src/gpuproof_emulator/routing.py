"""Identifies the service and operation of a request, in any of AWS's protocols."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qs

from gpuproof_emulator.protocol import AwsRequest

_READ_ONLY_PREFIXES = (
    "BatchGet",
    "Check",
    "Describe",
    "Filter",
    "Get",
    "Head",
    "List",
    "Lookup",
    "Search",
    "Simulate",
)

# S3's operations are identified by method, depth of the path and a query parameter.
# Source: botocore's service model of S3 (requestUri of each operation).
_S3: tuple[tuple[str, str, str, str], ...] = (
    ("PUT", "object", "partNumber", "UploadPart"),
    ("POST", "object", "uploads", "CreateMultipartUpload"),
    ("POST", "object", "uploadId", "CompleteMultipartUpload"),
    ("DELETE", "object", "uploadId", "AbortMultipartUpload"),
    ("GET", "object", "uploadId", "ListParts"),
    ("GET", "object", "tagging", "GetObjectTagging"),
    ("PUT", "object", "tagging", "PutObjectTagging"),
    ("PUT", "object", "", "PutObject"),
    ("GET", "object", "", "GetObject"),
    ("HEAD", "object", "", "HeadObject"),
    ("DELETE", "object", "", "DeleteObject"),
    ("GET", "bucket", "list-type", "ListObjectsV2"),
    ("GET", "bucket", "uploads", "ListMultipartUploads"),
    ("GET", "bucket", "versions", "ListObjectVersions"),
    ("GET", "bucket", "location", "GetBucketLocation"),
    ("GET", "bucket", "lifecycle", "GetBucketLifecycleConfiguration"),
    ("PUT", "bucket", "lifecycle", "PutBucketLifecycleConfiguration"),
    ("GET", "bucket", "encryption", "GetBucketEncryption"),
    ("PUT", "bucket", "encryption", "PutBucketEncryption"),
    ("GET", "bucket", "publicAccessBlock", "GetPublicAccessBlock"),
    ("PUT", "bucket", "publicAccessBlock", "PutPublicAccessBlock"),
    ("GET", "bucket", "policy", "GetBucketPolicy"),
    ("PUT", "bucket", "policy", "PutBucketPolicy"),
    ("GET", "bucket", "tagging", "GetBucketTagging"),
    ("PUT", "bucket", "tagging", "PutBucketTagging"),
    ("POST", "bucket", "delete", "DeleteObjects"),
    ("PUT", "bucket", "", "CreateBucket"),
    ("HEAD", "bucket", "", "HeadBucket"),
    ("DELETE", "bucket", "", "DeleteBucket"),
    ("GET", "bucket", "", "ListObjects"),
    ("GET", "service", "", "ListBuckets"),
)


# EventBridge Scheduler's operations: method, first part of the path, and whether a name follows.
# Source: botocore's service model of `scheduler` (requestUri of each operation).
_SCHEDULER: dict[tuple[str, str, bool], str] = {
    ("POST", "schedules", True): "CreateSchedule",
    ("GET", "schedules", True): "GetSchedule",
    ("PUT", "schedules", True): "UpdateSchedule",
    ("DELETE", "schedules", True): "DeleteSchedule",
    ("GET", "schedules", False): "ListSchedules",
    ("POST", "schedule-groups", True): "CreateScheduleGroup",
    ("GET", "schedule-groups", True): "GetScheduleGroup",
    ("DELETE", "schedule-groups", True): "DeleteScheduleGroup",
    ("GET", "schedule-groups", False): "ListScheduleGroups",
    ("POST", "tags", True): "TagResource",
    ("DELETE", "tags", True): "UntagResource",
    ("GET", "tags", True): "ListTagsForResource",
}

# Smithy's RPC v2 protocol, as of CloudWatch: https://smithy.io/2.0/additional-specs/protocols/smithy-rpc-v2.html
_CBOR_PATH = re.compile(r"/service/[^/]+/operation/(\w+)")


class OperationName(NamedTuple):
    """A request's service, by the name of its endpoint (`s3`, `logs`, `sagemaker`), and its operation."""

    service: str
    operation: str

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        return self.operation.startswith(_READ_ONLY_PREFIXES)


def identify_operation(request: AwsRequest) -> OperationName:
    """The service and operation of a request. An operation without a name is identified by its method and path."""
    prefix, operation = request.target
    service = request.scope[2] or (prefix.partition("_")[0].lower() if prefix else "s3")
    if operation:
        return OperationName(service, operation)
    if found := _CBOR_PATH.fullmatch(request.path):
        return OperationName(service, found[1])
    if action := request.form.get("Action"):
        return OperationName(service, action)
    if request.path.startswith("/endpoints/") and request.method == "POST":
        return OperationName("sagemaker-runtime", _invocation(request.path))
    if service == "s3":
        return OperationName(service, _s3_operation(request))
    if service == "scheduler":
        first, _, rest = request.path.strip("/").partition("/")
        if name := _SCHEDULER.get((request.method, first, bool(rest))):
            return OperationName(service, name)
    reading = "Get" if request.method in ("GET", "HEAD") else request.method.title()
    return OperationName(service, f"{reading} {request.path}")


def is_s3(service: str) -> bool:
    """Whether a service responds in S3's format."""
    return service in ("s3", "s3express")


def _s3_operation(request: AwsRequest) -> str:
    parameters = parse_qs(request.query, keep_blank_values=True)
    bucket, _, key = request.path.lstrip("/").partition("/")
    host = request.header("host").partition(":")[0]
    if host.endswith(".localhost") or ".s3." in host:
        # Virtual-hosted style: the host name contains the bucket.
        bucket, key = host, request.path.lstrip("/")
    level = "object" if key else "bucket" if bucket else "service"
    for method, where, word, name in _S3:
        if (method, where) == (request.method, level) and (not word or word in parameters):
            if name == "PutObject" and request.header("x-amz-copy-source"):
                return "CopyObject"
            return "UploadPartCopy" if _copies_part(name, request) else name
    return f"{'Get' if request.method == 'GET' else request.method.title()} {level}"


def _copies_part(name: str, request: AwsRequest) -> bool:
    return name == "UploadPart" and bool(request.header("x-amz-copy-source"))


def _invocation(path: str) -> str:
    last = path.rstrip("/").rpartition("/")[2]
    return {
        "async-invocations": "InvokeEndpointAsync",
        "invocations-response-stream": "InvokeEndpointWithResponseStream",
    }.get(last, "InvokeEndpoint")
