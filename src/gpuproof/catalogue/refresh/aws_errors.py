"""Classifies errors of boto3, with a message and a remedy."""

from typing import Any, Literal, NamedTuple

AwsErrorKind = Literal["credentials", "permission", "region", "throttled", "connection", "other"]

BY_CODE: dict[str, AwsErrorKind] = {
    **dict.fromkeys(
        (
            "ExpiredToken",
            "ExpiredTokenException",
            "RequestExpired",
            "InvalidAccessKeyId",
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "InvalidSignatureException",
            "SignatureDoesNotMatch",
            "InvalidToken",
        ),
        "credentials",
    ),
    **dict.fromkeys(("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"), "permission"),
    # EC2 answers AuthFailure to valid credentials in a region that the account has not enabled.
    **dict.fromkeys(("OptInRequired", "AuthFailure", "InvalidRegion"), "region"),
    **dict.fromkeys(
        (
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "TooManyRequestsException",
            "RequestLimitExceeded",
            "RequestThrottled",
            "SlowDown",
        ),
        "throttled",
    ),
}
"""Kinds of AWS error codes (AWS "Common Errors" pages of EC2, Pricing, Service Quotas and SSM)."""

MAX_MESSAGE_LENGTH = 300
"""Characters of a message that are shown."""

REMEDIES: dict[AwsErrorKind, str] = {
    "credentials": "Sign in again (aws sso login, or new keys), then try again.",
    "permission": "Request the permission in the message; the README lists all permissions that a refresh needs.",
    "region": "Enable the region in the account's settings, or exclude it with --region.",
    "throttled": "Try again later, or with fewer regions: --region.",
    "connection": "Check the network, the proxy and AWS_ENDPOINT_URL, then try again.",
    "other": "Try again later.",
}
"""What to do next."""


class AwsError(NamedTuple):
    """A failed AWS call.

    Attributes:
        kind: what failed.
        message: begins with the AWS error code, if there is one.
    """

    kind: AwsErrorKind
    message: str

    @property
    def remedy(self) -> str:
        """What to do next."""
        return REMEDIES[self.kind]


def classify_error(error: Exception) -> AwsError | None:
    """Classifies an error of boto3; returns None for any other error, which is a bug."""
    from botocore import exceptions  # with boto3: only when a call was made

    if isinstance(error, exceptions.ClientError):
        answer: dict[str, Any] = dict(error.response.get("Error", {}))
        code = str(answer.get("Code", "unknown"))
        return AwsError(BY_CODE.get(code, "other"), _one_line(f"{code}: {answer.get('Message', '')}"))
    credentials = (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.TokenRetrievalError,
        exceptions.SSOError,
        exceptions.ProfileNotFound,
    )
    if isinstance(error, credentials):
        return AwsError("credentials", _one_line(str(error)))
    if isinstance(error, exceptions.HTTPClientError | exceptions.ConnectionError):
        return AwsError("connection", _one_line(str(error)))
    if isinstance(error, exceptions.BotoCoreError):
        return AwsError("other", _one_line(str(error)))
    return None


def _one_line(text: str) -> str:
    # A proxy or an emulator may answer with a whole HTML page.
    line = " ".join(text.split()).rstrip(": ")
    return line if len(line) <= MAX_MESSAGE_LENGTH else f"{line[: MAX_MESSAGE_LENGTH - 1]}…"
