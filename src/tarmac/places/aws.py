"""Every AWS call that a place makes, typed. boto3 is imported when the first one is made."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from tarmac.errors import ExitCode, InvalidJob, TarmacError
from tarmac.settings import boto3_session

CONNECTIONS = 8
"""Requests to one service that may be under way at a time."""

_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_ATTEMPTS = 4
_CHUNK = 1 << 18

_REMEDIES = {
    "NoSuchBucket": "Look at the name: aws s3 ls",
    "NoSuchKey": "It was removed while it was read: run it again.",
    "PreconditionFailed": "It was replaced while it was read: run it again.",
    "AccessDenied": "Ask for s3:ListBucket on the bucket and s3:GetObject on its objects, and kms:Decrypt where they "
    "are encrypted; `aws sts get-caller-identity` says who you are.",
    "InvalidObjectState": "It is archived (Glacier): restore it first, with `aws s3api restore-object`.",
    "PermanentRedirect": "The bucket is in another region: set AWS_REGION to that one.",
    "AuthorizationHeaderMalformed": "The bucket is in another region: set AWS_REGION to that one.",
    "IllegalLocationConstraintException": "The bucket is in another region: set AWS_REGION to that one.",
    "RequestTimeTooSkewed": "Set this machine's clock.",
    "InvalidAccessKeyId": "Sign in again: aws sso login, or new keys; AWS_PROFILE says which are used.",
}
"""What to do about an error code of S3's.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
"""

_KIND_REMEDIES = {
    "credentials": "Sign in again: aws sso login, or new keys; AWS_PROFILE says which are used.",
    "permission": _REMEDIES["AccessDenied"],
    "region": "Enable the region in the account's settings, or set AWS_REGION to another.",
    "throttled": "AWS asks to slow down, after several attempts: wait a little, or raise AWS_MAX_ATTEMPTS.",
    "connection": "Look at the network, a proxy (HTTPS_PROXY) and AWS_ENDPOINT_URL.",
    "other": "Try it again; if it stays, look the error code up.",
}


class NoCredentials(TarmacError):
    """There is nobody to ask AWS as."""

    exit_code = ExitCode.UNDECIDED


class AwsRefused(TarmacError):
    """AWS answered, and said no; the message has its error code."""

    exit_code = ExitCode.AWS_REFUSED


class AwsUnreachable(TarmacError):
    """No answer came, or half of one."""


@dataclass(frozen=True)
class S3Object:
    """One object on S3, as a listing shows it.

    Args:
        bucket: its bucket.
        key: its key.
        size: in bytes.
        etag: changes whenever the content does.
        modified: seconds since the epoch.
    """

    bucket: str
    key: str
    size: int
    etag: str
    modified: float

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"


class Aws:
    """AWS, asked through boto3 in its standard retry mode: three attempts, or AWS_MAX_ATTEMPTS.

    Args:
        session: makes the boto3 session; called once.
        sleep: waits that many seconds between attempts at a content that broke off.

    Every method raises NoCredentials, AwsRefused or AwsUnreachable where AWS does not do what it is asked.
    """

    def __init__(
        self, session: Callable[[], Any] = boto3_session, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._make_session = session
        self._sleep = sleep
        self._s3_client: Any = None

    def list_objects(self, bucket: str, prefix: str) -> Iterator[S3Object]:
        """All objects whose keys begin with a prefix, in the order of their keys, page after page."""
        with _said_of(f"s3://{bucket}/{prefix}"):
            pages = self._s3().get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
            for page in pages:
                for item in page.get("Contents", ()):
                    yield S3Object(
                        bucket, item["Key"], item["Size"], item["ETag"], item["LastModified"].timestamp()
                    )

    def read_object(
        self, item: S3Object, start: int, length: int, write: Callable[[int, bytes], None]
    ) -> None:
        """Read a part of an object, again from its beginning where the connection breaks off.

        Args:
            item: as it was listed; another content under its key is an error.
            start: where the part begins, in bytes.
            length: its bytes, 1 or more.
            write: gets each piece and where in the object it belongs; after a break, pieces come again.
        """
        with _said_of(str(item)):
            for attempt in range(1, _ATTEMPTS):
                try:
                    self._read_once(item, start, length, write)
                except _broken_off():
                    self._sleep(0.25 * 2**attempt)
                else:
                    return
            self._read_once(item, start, length, write)

    def _read_once(
        self, item: S3Object, start: int, length: int, write: Callable[[int, bytes], None]
    ) -> None:
        asked = {"Bucket": item.bucket, "Key": item.key, "IfMatch": item.etag}
        if length < item.size:
            asked["Range"] = f"bytes={start}-{start + length - 1}"
        answer = self._s3().get_object(**asked)
        with contextlib.closing(answer["Body"]) as body:
            if answer["ContentLength"] != length:
                raise AwsUnreachable(
                    f"{item}: {length} bytes were asked for, and {answer['ContentLength']} were sent.",
                    remedy=_KIND_REMEDIES["connection"],
                )
            at = start
            while content := body.read(_CHUNK):
                write(at, content)
                at += len(content)

    def _s3(self) -> Any:
        if self._s3_client is None:
            from botocore.config import Config  # with boto3: only where AWS is asked

            config = Config(
                retries={"mode": "standard"},
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_READ_SECONDS,
                max_pool_connections=CONNECTIONS,
            )
            self._s3_client = self._make_session().client("s3", config=config)
        return self._s3_client


def _broken_off() -> tuple[type[Exception], ...]:
    """What botocore raises when an answer's body ends too early: beyond its own retries."""
    from botocore import exceptions  # with boto3

    return (
        exceptions.IncompleteReadError,
        exceptions.ReadTimeoutError,
        exceptions.ResponseStreamingError,
        exceptions.FlexibleChecksumError,
    )


@contextlib.contextmanager
def _said_of(what: str) -> Generator[None, None, None]:
    """Turn what botocore raises into words."""
    try:
        yield
    except Exception as error:
        if (told := _in_words(what, error)) is None:
            raise
        raise told from error


def _in_words(what: str, error: Exception) -> TarmacError | None:
    from botocore import exceptions  # with boto3

    from tarmac.catalogue.refresh.faults import fault_of  # what went wrong is the same in every service

    fault = fault_of(error)
    if fault is None:
        return None
    message = f"{what}: {fault.message.rstrip('.')}."
    if isinstance(error, exceptions.ClientError):
        code = error.response.get("Error", {}).get("Code", "")
        return AwsRefused(message, remedy=_REMEDIES.get(code, _KIND_REMEDIES[fault.kind]))
    if isinstance(error, exceptions.ParamValidationError):
        return InvalidJob(message, remedy="Write s3://BUCKET/PREFIX.")
    if fault.kind == "credentials":
        return NoCredentials(
            message,
            remedy="Set AWS_PROFILE, sign in with `aws sso login`, or set AWS_ACCESS_KEY_ID and its secret.",
        )
    return AwsUnreachable(message, remedy=_KIND_REMEDIES[fault.kind])
