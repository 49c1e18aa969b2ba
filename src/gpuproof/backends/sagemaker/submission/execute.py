"""Executing planned calls, and taking back what they made where the rest fails or is interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.sagemaker.s3_layout import CODE_TAGS
from gpuproof.backends.sagemaker.submission.aws_call import Call
from gpuproof.errors import GPUproofError

_GONE = frozenset(
    {"NoSuchBucket", "NoSuchKey", "BucketNotEmpty", "ResourceNotFound", "ResourceNotFoundException"}
)
"""What was to be undone is not there, or a bucket holds what somebody else put there."""


def perform(aws: Aws, call: Call) -> dict[str, Any]:
    """Execute one call; a few are more than one request, and the client knows how.

    Raises:
        GPUproofError: AWS did not do it.
    """
    asked = call.request
    if call.service == "s3" and call.operation in ("put_object", "copy_object", "delete_objects"):
        _perform_s3(aws, call)
        return {}
    return aws.call(call.service, call.operation, **asked)


def _perform_s3(aws: Aws, call: Call) -> None:
    asked = call.request
    bucket, key, kms_key = asked["Bucket"], asked.get("Key", ""), asked.get("SSEKMSKeyId")
    tags = CODE_TAGS if "Tagging" in asked else None
    if call.operation == "put_object":
        aws.put_object(bucket, key, asked["Body"], kms_key=kms_key, tags=tags)
    elif call.operation == "copy_object":
        aws.copy_object(bucket, asked["CopySource"]["Key"], key, kms_key=kms_key, tags=tags)
    else:
        aws.delete_objects(bucket, [one["Key"] for one in asked["Delete"]["Objects"]])


class Undo:
    """What would take back what was made so far.

    Args:
        aws: the client.
    """

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._calls: list[Call] = []

    def remember(self, call: Call | None) -> None:
        """Remember what would take something back: before it is made, since that may be interrupted half way."""
        if call is not None:
            self._calls.append(call)

    def forget(self, call: Call | None) -> None:
        """That was not made after all."""
        if call in self._calls:
            self._calls.remove(call)

    def pop_stop(self) -> Call | None:
        """The call that stops a job, if one is remembered, which is not undone here any more."""
        found = next((call for call in self._calls if call.operation.startswith("stop_")), None)
        self.forget(found)
        return found

    def take_back(self) -> list[str]:
        """Undo everything, the last first, whatever happens meanwhile; gives what could not be undone, in words."""
        calls, self._calls = list(_together(list(reversed(self._calls)))), []
        return [problem for call in calls if (problem := self._undone(call)) is not None]

    def _undone(self, call: Call) -> str | None:
        while True:
            try:
                perform(self._aws, call)
            except KeyboardInterrupt:
                continue  # it is being undone already: Ctrl-C once more does not leave half of it
            except AwsRefused as refused:
                return None if refused.code in _GONE else f"{call.what}: {refused.message}"
            except GPUproofError as error:
                return f"{call.what}: {error.message}"
            return None


def _together(calls: Sequence[Call]) -> Iterator[Call]:
    """The calls, those that delete objects one after another in one bucket as one."""

    def kind(call: Call) -> tuple[str, str]:
        return call.operation, call.request.get("Bucket", "")

    for (operation, bucket), group in groupby(calls, key=kind):
        same = list(group)
        if operation != "delete_objects" or len(same) == 1:
            yield from same
            continue
        objects = [one for call in same for one in call.request["Delete"]["Objects"]]
        what = "; ".join(dict.fromkeys(call.what for call in same))
        yield Call("s3", operation, {"Bucket": bucket, "Delete": {"Objects": objects}}, what)
