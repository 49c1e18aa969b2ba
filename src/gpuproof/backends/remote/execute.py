"""Executes planned API calls, and undoes them after an error or an interrupt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.remote.s3_layout import CODE_TAGS
from gpuproof.errors import GPUproofError

_GONE = frozenset(
    {"NoSuchBucket", "NoSuchKey", "BucketNotEmpty", "ResourceNotFound", "ResourceNotFoundException"}
)
"""Error codes of an undo that has nothing left to do, or of a bucket that someone else also uses."""


def execute(aws: Aws, call: ApiCall) -> dict[str, Any]:
    """Execute one call; some of them are several requests.

    Raises:
        GPUproofError: the call failed.
    """
    if call.service == "s3" and call.operation in ("put_object", "copy_object", "delete_objects"):
        _execute_s3(aws, call)
        return {}
    return (aws.in_region(call.region) if call.region else aws).call(
        call.service, call.operation, **call.request
    )


def _execute_s3(aws: Aws, call: ApiCall) -> None:
    request = call.request
    bucket, key, kms_key = request["Bucket"], request.get("Key", ""), request.get("SSEKMSKeyId")
    tags = CODE_TAGS if "Tagging" in request else None
    if call.operation == "put_object":
        aws.put_object(bucket, key, request["Body"], kms_key=kms_key, tags=tags)
    elif call.operation == "copy_object":
        aws.copy_object(bucket, request["CopySource"]["Key"], key, kms_key=kms_key, tags=tags)
    else:
        aws.delete_objects(bucket, [one["Key"] for one in request["Delete"]["Objects"]])


class UndoLog:
    """The calls that undo what was created so far.

    Args:
        aws: the client.
    """

    def __init__(self, aws: Aws) -> None:
        self._aws = aws
        self._calls: list[ApiCall] = []

    def add(self, call: ApiCall | None) -> None:
        """Add an undo. Call this before the resource is created, which may be interrupted half way."""
        if call is not None:
            self._calls.append(call)

    def discard(self, call: ApiCall | None) -> None:
        """Remove an undo: the resource was not created."""
        if call in self._calls:
            self._calls.remove(call)

    def pop_stop(self) -> ApiCall | None:
        """Remove and return the call that stops a job, if there is one."""
        found = next((call for call in self._calls if call.operation.startswith("stop_")), None)
        self.discard(found)
        return found

    def roll_back(self) -> list[str]:
        """Undo everything, last first, even if interrupted; returns messages about what could not be undone."""
        calls, self._calls = list(_merge_deletions(list(reversed(self._calls)))), []
        return [problem for call in calls if (problem := self._undo(call)) is not None]

    def _undo(self, call: ApiCall) -> str | None:
        while True:
            try:
                execute(self._aws, call)
            except KeyboardInterrupt:
                continue  # another Ctrl-C must not end the roll-back half way
            except AwsRefused as refused:
                return None if refused.code in _GONE else f"{call.what}: {refused.message}"
            except GPUproofError as error:
                return f"{call.what}: {error.message}"
            return None


def _merge_deletions(calls: Sequence[ApiCall]) -> Iterator[ApiCall]:
    """The calls, with consecutive deletions of objects in one bucket merged into one call."""

    def kind(call: ApiCall) -> tuple[str, str]:
        return call.operation, call.request.get("Bucket", "")

    for (operation, bucket), group in groupby(calls, key=kind):
        same = list(group)
        if operation != "delete_objects" or len(same) == 1:
            yield from same
            continue
        objects = [one for call in same for one in call.request["Delete"]["Objects"]]
        what = "; ".join(dict.fromkeys(call.what for call in same))
        yield ApiCall("s3", operation, {"Bucket": bucket, "Delete": {"Objects": objects}}, what)
