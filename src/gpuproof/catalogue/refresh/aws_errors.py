"""What a failed call means, in words."""

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
    # EC2 answers AuthFailure to good credentials in a region that the account has not opted into.
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
"""AWS error codes by what they mean (AWS "Common Errors" pages of EC2, Pricing, Service Quotas and SSM)."""

LONGEST = 300
"""Characters of a message that are told."""

REMEDIES: dict[AwsErrorKind, str] = {
    "credentials": "Sign in again (aws sso login, or new keys), then repeat.",
    "permission": "Ask for the permission that the message names; the README lists all that a refresh needs.",
    "region": "Enable the region in the account's settings, or leave it out with --region.",
    "throttled": "Repeat it later, or for fewer regions: --region.",
    "connection": "Look at the network, a proxy, or AWS_ENDPOINT_URL, then repeat.",
    "other": "Repeat it later.",
}
"""What to do next."""


class AwsError(NamedTuple):
    """Why a part could not be read.

    Attributes:
        kind: what it means.
        message: with the AWS error code where there is one.
    """

    kind: AwsErrorKind
    message: str

    @property
    def remedy(self) -> str:
        """What to do next."""
        return REMEDIES[self.kind]


def classify_error(error: Exception) -> AwsError | None:
    """What a boto3 error means; None for an error that is a bug of ours."""
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
    # A proxy or a stand-in for AWS may answer with a whole HTML page.
    line = " ".join(text.split()).rstrip(": ")
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
