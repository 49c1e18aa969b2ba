"""What botocore raises, as an error that a person can act on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gpuproof.backends.aws.error_context import Circumstances, facts_of
from gpuproof.backends.aws.error_hints import find_remedy
from gpuproof.backends.aws.errors import AwsRefused, AwsUnreachable, NoCredentials
from gpuproof.errors import GPUproofError, InvalidJob, UsageError

LONGEST = 1000
"""Characters of AWS's message that are told."""

_LONG_LIST = re.compile(r"\[((?:[^,\[\]]+, ){3})[^\[\]]{200,}\]?")
"""Every value that would have been right, such as each instance type that there is."""


@dataclass(frozen=True)
class Asked:
    """What was asked.

    Args:
        service: as boto3 names it.
        operation: as AWS names it, `CreateTrainingJob`; empty where no call was made yet.
        what: what it was about, for people, such as `s3://bucket/key`; the operation if None.
        once: whether asking again could make a second one.
    """

    service: str
    operation: str
    what: str | None = None
    once: bool = False


def in_words(error: Exception, asked: Asked, where: Circumstances) -> GPUproofError | None:
    """What a boto3 error means; None for an error that is a bug of ours."""
    from botocore import exceptions  # with boto3: only where AWS was asked

    if isinstance(error, exceptions.ClientError):
        return _refused(error, asked, where)
    if not isinstance(error, exceptions.BotoCoreError | exceptions.HTTPClientError):
        return None
    code = type(error).__name__
    message = f"{asked.what or asked.operation or 'AWS'}: {_one_line(str(error)).rstrip('.')}."
    remedy = find_remedy(asked.service, asked.operation, _names(error), str(error)).said(
        facts_of(error, asked.service, where)
    )
    if code == "NoRegionError":
        return UsageError("No AWS region is set.", remedy)
    if code == "InvalidRegionError":
        return UsageError(message, remedy)
    if isinstance(error, exceptions.ParamValidationError):
        return InvalidJob(message, remedy)
    if isinstance(error, _credentials()):
        return NoCredentials(message, remedy)
    return AwsUnreachable(
        message, remedy, operation=asked.operation, maybe_done=asked.once and _was_sent(error)
    )


def _refused(error: Any, asked: Asked, where: Circumstances) -> AwsRefused:
    answer: dict[str, Any] = error.response.get("Error", {})
    about: dict[str, Any] = error.response.get("ResponseMetadata", {})
    code, said = str(answer.get("Code", "unknown")), _one_line(str(answer.get("Message") or ""))
    operation = str(error.operation_name or asked.operation)
    told = f"{code}: {said}".rstrip(": .")
    message = f"{asked.what}: {told} ({operation})." if asked.what else f"{operation}: {told}."
    found = find_remedy(asked.service, operation, (code,), said)
    status = about.get("HTTPStatusCode")
    return AwsRefused(
        message,
        found.said(facts_of(error, asked.service, where)),
        code=code,
        operation=operation,
        request_id=about.get("RequestId"),
        status=status,
        said=said,
        maybe_done=asked.once and isinstance(status, int) and status >= 500 and code not in ("SlowDown",),
    )


def _names(error: Exception) -> tuple[str, ...]:
    """The error's class and those that it is a kind of, the nearest first."""
    return tuple(kind.__name__ for kind in type(error).__mro__)


def _credentials() -> tuple[type[Exception], ...]:
    from botocore import exceptions  # with boto3

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
    from botocore import exceptions  # with boto3

    never = (
        exceptions.EndpointConnectionError,
        exceptions.ConnectTimeoutError,
        exceptions.ProxyConnectionError,
        exceptions.SSLError,
    )
    return isinstance(error, exceptions.HTTPClientError) and not isinstance(error, never)


def broken_off() -> tuple[type[Exception], ...]:
    """What botocore raises when an answer's body ends too early: beyond its own retries."""
    from botocore import exceptions  # with boto3

    return (
        exceptions.IncompleteReadError,
        exceptions.ReadTimeoutError,
        exceptions.ResponseStreamingError,
        exceptions.FlexibleChecksumError,
    )


def _one_line(text: str) -> str:
    # A proxy, or a stand-in for AWS, may answer with a whole HTML page.
    page = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
    line = _LONG_LIST.sub(r"[\1…]", " ".join((page[1] if page else text).split()))
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
