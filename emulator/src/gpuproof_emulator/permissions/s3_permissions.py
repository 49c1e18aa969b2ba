"""What permissions change in S3's responses, besides refusing a request."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from xml.sax.saxutils import escape

from gpuproof_emulator.permissions.authorizer import Authorizer
from gpuproof_emulator.permissions.calls import call_of_request
from gpuproof_emulator.protocol import ACCOUNT, AwsError, AwsRequest, AwsResponse, xml_response
from gpuproof_emulator.routing import OperationName, is_s3

_READS = ("GetObject", "HeadObject")


def handle(
    authorizer: Authorizer, request: AwsRequest, operation: OperationName, serve: Callable[[], AwsResponse]
) -> AwsResponse:
    """The response to a request, if the policies of the user or role that made it allow it.

    S3 reports a missing bucket to everyone, a missing object only to users who may list the bucket
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html), and objects that may not be deleted one by one
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html).

    Raises:
        AwsError: AWS's error.
    """
    if not is_s3(operation.service):
        authorizer.check_request(request, operation)
        return serve()
    members = call_of_request(request, operation).members
    bucket = members["Bucket"]
    if bucket and operation.operation != "CreateBucket" and not _exists(bucket):
        return serve()
    try:
        authorizer.check_request(request, operation)
    except AwsError as error:
        if operation.operation != "DeleteObjects":
            raise
        keys = [value for name, value in members.items() if name.startswith("Key.")]
        return _not_deleted(request, keys, error)
    response = serve()
    if operation.operation in _READS and response.status == HTTPStatus.NOT_FOUND:
        authorizer.check_also(request, operation, "s3:ListBucket", f"arn:aws:s3:::{bucket}")
    return response


def _exists(bucket: str) -> bool:
    from moto.s3.models import s3_backends  # loads slowly

    return bucket in s3_backends[ACCOUNT]["aws"].buckets


def _not_deleted(request: AwsRequest, keys: list[str], error: AwsError) -> AwsResponse:
    details = f"<Code>{error.code}</Code><Message>{escape(error.message)}</Message>"
    errors = "".join(f"<Error><Key>{escape(key)}</Key>{details}</Error>" for key in keys)
    return xml_response(
        request, f'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{errors}</DeleteResult>'
    )
