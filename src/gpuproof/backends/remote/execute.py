"""Planned API calls: executes them, as steps of a transaction if they create something."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from gpuproof.backends.api_call import HIDDEN, ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.remote.s3_layout import CODE_TAGS
from gpuproof.backends.transaction import Step, Undo
from gpuproof.errors import GPUproofError

_GONE = frozenset(
    {"NoSuchBucket", "NoSuchKey", "BucketNotEmpty", "ResourceNotFound", "ResourceNotFoundException"}
)
"""Error codes of an undo that has nothing left to do, or of a bucket that someone else also uses."""

_SHORTEST_SECRET = 4
"""Characters of a value that is hidden: shorter ones occur in any message."""


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
        aws.delete_objects(bucket, [item["Key"] for item in request["Delete"]["Objects"]])


def undo_of(
    aws: Aws,
    call: ApiCall,
    *,
    needed: bool = False,
    kept_after: Callable[[BaseException], bool] = lambda _error: False,
) -> Undo:
    """The undo that makes a call; what does not exist is taken as deleted."""

    def delete() -> None:
        try:
            execute(aws, call)
        except AwsRefused as refused:
            if refused.code not in _GONE:
                raise

    return Undo(call.what, delete, needed=needed, kept_after=kept_after)


def step_of(
    aws: Aws,
    call: ApiCall,
    *,
    needed: bool = False,
    kept_after: Callable[[BaseException], bool] = lambda _error: False,
    shown: bool = True,
) -> Step[dict[str, Any]]:
    """The step that makes a call; see `undo_of`. What another run has created under the same name is used and kept."""
    undo = () if call.undo is None else (undo_of(aws, call.undo, needed=needed, kept_after=kept_after),)
    what = call.what if shown else ""
    return Step(what, lambda: execute(aws, call), undo, in_use=_is_own_bucket, shared=True)


def redacted(
    error: AwsRefused | AwsUnreachable, environment: Mapping[str, str]
) -> AwsRefused | AwsUnreachable:
    """The error without values of environment variables, which AWS quotes when it rejects them."""
    message = error.message
    for value in environment.values():
        if len(value) >= _SHORTEST_SECRET:
            message = message.replace(value, HIDDEN)
    return error.replaced(message, error.remedy)


def _is_own_bucket(refused: AwsRefused) -> bool:
    return refused.code == "BucketAlreadyOwnedByYou"


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
