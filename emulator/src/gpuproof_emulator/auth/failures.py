"""AWS's errors for requests that are not authenticated, which differ by protocol.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html and
https://docs.aws.amazon.com/IAM/latest/UserGuide/signature-v4-troubleshooting.html
"""

from __future__ import annotations

import enum

from gpuproof_emulator.protocol import AwsError, AwsRequest
from gpuproof_emulator.routing import is_s3

_HINT = " This emulator's secret access key is the token that it prints when it starts."
_INVALID = f"The security token included in the request is invalid.{_HINT}"
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your key and signing method."
    + _HINT
)


class AuthFailure(enum.Enum):
    """Why a request is rejected."""

    MISSING = "it is not signed"
    MALFORMED = "its signature is incomplete"
    UNKNOWN_KEY = "its access key is unknown"
    INVALID_TOKEN = "the session token does not belong to the access key"  # noqa: S105 - no password
    MISMATCH = "the signature is wrong"
    BODY_MISMATCH = "the body is not the signed one"
    SKEWED = "the time of the request is too far from the server's"
    EXPIRED = "the presigned address has expired"


class Rejected(Exception):
    """A request is not authenticated.

    Args:
        failure: why.
    """

    def __init__(self, failure: AuthFailure) -> None:
        super().__init__(failure.value)
        self.failure = failure


# By protocol: S3, query (IAM, STS), JSON.
_ERRORS: dict[AuthFailure, tuple[tuple[str, str], tuple[str, str], tuple[str, str]]] = {
    AuthFailure.MISSING: (
        ("AccessDenied", f"Access Denied: the request is not signed.{_HINT}"),
        ("MissingAuthenticationToken", f"Request is missing Authentication Token.{_HINT}"),
        ("MissingAuthenticationTokenException", f"Missing Authentication Token.{_HINT}"),
    ),
    AuthFailure.MALFORMED: (
        ("AuthorizationHeaderMalformed", "The authorization header is malformed."),
        ("IncompleteSignature", "The request's signature is incomplete."),
        ("IncompleteSignatureException", "The request's signature is incomplete."),
    ),
    AuthFailure.UNKNOWN_KEY: (
        ("InvalidAccessKeyId", f"The AWS access key Id you provided does not exist in our records.{_HINT}"),
        ("InvalidClientTokenId", _INVALID),
        ("UnrecognizedClientException", _INVALID),
    ),
    AuthFailure.INVALID_TOKEN: (
        ("InvalidToken", "The provided token is malformed or otherwise invalid."),
        ("InvalidClientTokenId", _INVALID),
        ("UnrecognizedClientException", _INVALID),
    ),
    AuthFailure.MISMATCH: (
        ("SignatureDoesNotMatch", _MISMATCH),
        ("SignatureDoesNotMatch", _MISMATCH),
        ("InvalidSignatureException", _MISMATCH),
    ),
    AuthFailure.BODY_MISMATCH: (
        ("XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match the body."),
        ("SignatureDoesNotMatch", _MISMATCH),
        ("InvalidSignatureException", _MISMATCH),
    ),
    AuthFailure.SKEWED: (
        (
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
        ),
        ("SignatureDoesNotMatch", "Signature expired: the request's time is too far from the server's."),
        ("InvalidSignatureException", "Signature expired: the request's time is too far from the server's."),
    ),
    AuthFailure.EXPIRED: (
        ("AccessDenied", "Request has expired"),
        ("SignatureDoesNotMatch", "Signature expired."),
        ("InvalidSignatureException", "Signature expired."),
    ),
}
_STATUS = 403
_JSON_STATUS = 400


def auth_error(failure: AuthFailure, request: AwsRequest, service: str) -> AwsError:
    """The error with which a service rejects a request.

    Args:
        service: by the name of its endpoint.
    """
    s3, query, json = _ERRORS[failure]
    if is_s3(service):
        malformed = failure is AuthFailure.MALFORMED
        return AwsError(*s3, _JSON_STATUS if malformed else _STATUS)
    if service == "ec2":
        return AwsError("AuthFailure", f"{query[1]} (AWS was not able to validate the credentials.)", 401)
    if is_query_protocol(request):
        return AwsError(*query, _STATUS)
    return AwsError(*json, _JSON_STATUS)


def is_query_protocol(request: AwsRequest) -> bool:
    """Whether a request is in a query protocol, like those of IAM, STS and EC2."""
    return request.environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded") or bool(
        request.form
    )
