"""Which operation of which service a request asks for, whatever its protocol."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qs

from gpuproof.emulator.protocol import AwsRequest

_READING = ("BatchGet", "Check", "Describe", "Filter", "Get", "Head", "List", "Lookup", "Search", "Simulate")

# S3 names its operations by method, by how deep the path goes and by a word of the query.
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


class Named(NamedTuple):
    """A request's service, as its endpoint is called (`s3`, `logs`, `sagemaker`), and its operation."""

    service: str
    operation: str

    @property
    def only_reads(self) -> bool:
        """Whether it leaves everything as it was."""
        return self.operation.startswith(_READING)


def named(request: AwsRequest) -> Named:
    """What a request asks for. An operation without a name of its own is called by its method and path."""
    prefix, operation = request.target
    service = request.scope[2] or (prefix.partition("_")[0].lower() if prefix else "s3")
    if operation:
        return Named(service, operation)
    if action := request.form.get("Action"):
        return Named(service, action)
    if request.path.startswith("/endpoints/") and request.method == "POST":
        return Named("sagemaker-runtime", _invocation(request.path))
    if service == "s3":
        return Named(service, _s3_operation(request))
    reading = "Get" if request.method in ("GET", "HEAD") else request.method.title()
    return Named(service, f"{reading} {request.path}")


def is_s3(service: str) -> bool:
    """Whether a service answers in S3's form."""
    return service in ("s3", "s3express")


def _s3_operation(request: AwsRequest) -> str:
    words = parse_qs(request.query, keep_blank_values=True)
    bucket, _, key = request.path.lstrip("/").partition("/")
    host = request.header("host").partition(":")[0]
    if host.endswith(".localhost") or ".s3." in host:
        # The bucket stands in the host's name.
        bucket, key = host, request.path.lstrip("/")
    level = "object" if key else "bucket" if bucket else "service"
    for method, where, word, name in _S3:
        if (method, where) == (request.method, level) and (not word or word in words):
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
