"""Translates botocore exceptions into errors with a remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws.error_hints import ErrorContext, error_facts, find_hint
from gpuproof.backends.aws.errors import CAPACITIES, THROTTLES, AwsRefused, AwsUnreachable, NoCredentials
from gpuproof.errors import GPUproofError, InvalidJob, UsageError

LONGEST = 1000
"""Maximum length of AWS's message, in characters."""

WITHOUT_ACCOUNT = (
    "Without an AWS account: `gpuproof emulator` is one on this machine; --dry-run shows what would be sent."
)
"""How GPUproof is tried without credentials."""

_LONG_LIST = re.compile(r"\[((?:[^,\[\]]+, ){3})[^\[\]]{200,}\]?")
"""A long list of allowed values, such as all instance types."""

_NEVER_DONE = THROTTLES | CAPACITIES
"""Error codes with status 500 or 503 of requests that AWS has certainly not executed."""


@dataclass(frozen=True)
class RequestInfo:
    """The request that failed.

    Args:
        service: the boto3 service name.
        operation: the AWS name of the operation, such as `CreateTrainingJob`; empty before the first request.
        subject: what it was about, for the user, such as `s3://bucket/key`; the operation if None.
        once: whether a repeated request could create a second resource.
    """

    service: str
    operation: str
    subject: str | None = None
    once: bool = False


def translate_error(error: Exception, request: RequestInfo, context: ErrorContext) -> GPUproofError | None:
    """Translate a boto3 exception; None for an exception that is a bug in GPUproof."""
    from botocore import exceptions  # slow to import: only for runs on AWS
    from botocore.parsers import ResponseParserError

    if isinstance(error, exceptions.ClientError):
        return _refused(error, request, context)
    if not isinstance(error, exceptions.BotoCoreError | exceptions.HTTPClientError | ResponseParserError):
        return None
    code = type(error).__name__
    message = f"{request.subject or request.operation or 'AWS'}: {_one_line(str(error)).rstrip('.')}."
    remedy = find_hint(request.service, request.operation, _names(error), str(error)).format(
        error_facts(error, request.service, context)
    )
    if code == "NoRegionError":
        return UsageError("No AWS region is set.", remedy)
    if code == "InvalidRegionError":
        return UsageError(message, remedy)
    if isinstance(error, exceptions.ParamValidationError):
        return InvalidJob(message, remedy)
    if isinstance(error, _credentials()):
        return NoCredentials(message, f"{remedy}\n{WITHOUT_ACCOUNT}")
    return AwsUnreachable(
        message, remedy, operation=request.operation, maybe_done=request.once and _was_sent(error)
    )


def _refused(error: Any, request: RequestInfo, context: ErrorContext) -> AwsRefused:
    answer: dict[str, Any] = error.response.get("Error", {})
    about: dict[str, Any] = error.response.get("ResponseMetadata", {})
    code, aws_message = str(answer.get("Code", "unknown")), _one_line(str(answer.get("Message") or ""))
    operation = str(error.operation_name or request.operation)
    text = f"{code}: {aws_message}".rstrip(": .")
    message = f"{request.subject}: {text} ({operation})." if request.subject else f"{operation}: {text}."
    found = find_hint(request.service, operation, (code,), aws_message)
    status = about.get("HTTPStatusCode")
    return AwsRefused(
        message,
        found.format(error_facts(error, request.service, context)),
        code=code,
        operation=operation,
        request_id=about.get("RequestId"),
        status=status,
        aws_message=aws_message,
        maybe_done=request.once and isinstance(status, int) and status >= 500 and code not in _NEVER_DONE,
    )


def _names(error: Exception) -> tuple[str, ...]:
    """The names of the exception's class and its bases, most specific first."""
    return tuple(kind.__name__ for kind in type(error).__mro__)


def _credentials() -> tuple[type[Exception], ...]:
    from botocore import exceptions  # slow to import

    return (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.CredentialRetrievalError,
        exceptions.TokenRetrievalError,
        exceptions.SSOError,
        exceptions.ProfileNotFound,
        exceptions.LoginError,
        exceptions.UnknownCredentialError,
        exceptions.RefreshWithMFAUnsupportedError,
    )


def _was_sent(error: Exception) -> bool:
    """Whether the request may have reached AWS before the connection was lost."""
    from botocore import exceptions  # slow to import
    from botocore.parsers import ResponseParserError

    if isinstance(error, ResponseParserError):
        return True  # it was answered, by AWS or by a program in between
    never = (
        exceptions.EndpointConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.ProxyConnectionError,
        exceptions.SSLError,
    )
    return isinstance(error, exceptions.HTTPClientError) and not isinstance(error, never)


def stream_errors() -> tuple[type[Exception], ...]:
    """Exceptions of botocore for a response body that ends too early, which it does not retry."""
    from botocore import exceptions  # slow to import

    return (
        exceptions.IncompleteReadError,
        exceptions.ReadTimeoutError,
        exceptions.ResponseStreamingError,
        exceptions.FlexibleChecksumError,
    )


def _one_line(text: str) -> str:
    # A proxy, or an AWS emulator, may answer with an HTML page.
    page = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    line = _LONG_LIST.sub(r"[\1…]", " ".join((page[1] if page else text).split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
