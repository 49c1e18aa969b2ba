"""Planned API calls: executes them, as steps of a transaction if they create something."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.remote.s3_layout import CODE_TAGS
from gpuproof.backends.transaction import Step, Undo
from gpuproof.util.redaction import HIDDEN

_GONE = frozenset(
    {
        "NoSuchBucket",
        "NoSuchKey",
        "BucketNotEmpty",
        "ResourceNotFound",
        "ResourceNotFoundException",
        "NoSuchEntity",
        "InvalidGroup.NotFound",
        "InvalidVpcID.NotFound",
    }
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
            if refused.code not in _GONE and not refused.is_missing:
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
