"""Executes the calls for the selected resources, one resource after the other; nothing else is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuproof.account.cleanup.actions import calls_for
from gpuproof.account.cleanup.resource import Resource
from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.interrupts import DeferredInterrupt
from gpuproof.errors import ExitCode, GPUproofError

_GONE = frozenset(
    {
        "InvalidGroup.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidVolume.NotFound",
        "NoSuchBucket",
        "ObjectNotFoundException",
        "ResourceNotFound",
        "ResourceNotFoundException",
    }
)
_GONE_TEXTS = ("could not find", "not found", "does not exist", "recordnotfound")


class Result(StrEnum):
    """What became of a resource."""

    DONE = "done"
    GONE = "gone"
    FAILED = "failed"
    REMAINS = "remains"


@dataclass(frozen=True)
class Outcome:
    """What became of one selected resource.

    Args:
        result: done; gone if it had been deleted by another command; failed; or it remains because the command was interrupted.
        left: descriptions of the calls that were not made, or failed.
    """

    resource: Resource
    result: Result
    error: GPUproofError | None = None
    left: tuple[str, ...] = ()


def delete(
    resources: Sequence[Resource],
    open_aws: Callable[[str], Aws],
    report: Callable[[Outcome], None] = lambda _: None,
) -> tuple[list[Outcome], bool]:
    """Make the calls of each resource's action. A failure does not keep the others from being deleted.

    An interrupt (Ctrl-C, SIGTERM) takes effect between two calls, so that it is known which were made.

    Args:
        report: called after each resource.

    Returns:
        An outcome for each resource, in their order, and whether an interrupt ended it.
    """
    outcomes: list[Outcome] = []
    interrupted = False
    for resource in resources:
        if interrupted:
            outcome = Outcome(resource, Result.REMAINS, left=tuple(call.what for call in calls_for(resource)))
        else:
            outcome, interrupted = _delete_one(resource, open_aws)
        outcomes.append(outcome)
        if outcome.result is not Result.REMAINS:
            report(outcome)
    return outcomes, interrupted


def exit_code(outcomes: Sequence[Outcome]) -> ExitCode:
    """The exit code for deletions: that of the first failure."""
    failed = next((outcome.error for outcome in outcomes if outcome.error is not None), None)
    return ExitCode.OK if failed is None else failed.exit_code


def _delete_one(resource: Resource, open_aws: Callable[[str], Aws]) -> tuple[Outcome, bool]:
    calls = calls_for(resource)
    interrupted, gone, done = False, False, 0
    error: GPUproofError | None = None
    for call in calls:
        try:
            with DeferredInterrupt():
                try:
                    _execute(open_aws(resource.region), call)
                except AwsRefused as refused:
                    if not is_gone(refused):
                        raise
                    gone |= done == 0
                done += 1
        except GPUproofError as problem:
            error = problem
            break
        except KeyboardInterrupt:
            interrupted = True
            break
    left = tuple(call.what for call in calls[done:])
    if error is not None:
        return Outcome(resource, Result.FAILED, error, left), interrupted
    if left and done == 0:
        return Outcome(resource, Result.REMAINS, left=left), interrupted
    return Outcome(resource, Result.GONE if gone else Result.DONE, left=left), interrupted


def _execute(aws: Aws, call: ApiCall) -> None:
    answer = aws.call(call.service, call.operation, **call.request)
    # S3 reports what it did not delete in a successful response.
    for problem in answer.get("Errors", ()) if call.operation == "delete_objects" else ():
        raise AwsRefused(
            f"{problem.get('Key')}: {problem.get('Code')}: {problem.get('Message')} (DeleteObjects).",
            code=str(problem.get("Code")),
            operation="DeleteObjects",
        )


def is_gone(refused: AwsRefused) -> bool:
    """Whether a resource no longer exists, so that nothing is left to delete."""
    if refused.code in _GONE:
        return True
    text = refused.aws_message.lower()
    return refused.code == "ValidationException" and any(gone_text in text for gone_text in _GONE_TEXTS)
