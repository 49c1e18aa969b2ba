"""Explains why a notebook instance failed: SageMaker's reason, and the last lines of its lifecycle scripts."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.backends.aws import Aws
from gpuproof.backends.sagemaker.notebooks.errors import NotebookFailed
from gpuproof.errors import GPUproofError

LOG_GROUP = "/aws/sagemaker/NotebookInstances"
"""Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateNotebookInstanceLifecycleConfig.html"""

_SHOWN_LINES = 15


@dataclass(frozen=True)
class KnownReason:
    """A FailureReason that is known.

    Args:
        is_capacity: whether another instance type may work.
    """

    text: str
    remedy: str
    is_capacity: bool = False
    source: str = ""


KNOWN = (
    KnownReason(
        "Insufficient notebook instance capacity",
        "Try another instance type (--fallback TYPE), another subnet's zone or region, or try again later.",
        is_capacity=True,
        source="https://github.com/aws/amazon-sagemaker-examples/issues/207",
    ),
    KnownReason(
        "Unable to provision requested ML compute capacity",
        "Try another instance type (--fallback TYPE), another subnet's zone or region, or try again later.",
        is_capacity=True,
        source="https://github.com/DIAGNijmegen/rse-grand-challenge/issues/2631",
    ),
    KnownReason(
        "InsufficientInstanceCapacity",
        "Try another instance type (--fallback TYPE), another subnet's zone or region, or try again later.",
        is_capacity=True,
        source="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html",
    ),
    KnownReason(
        "took longer than 5 minutes",
        "A lifecycle script ended with an error or ran for more than 5 minutes: SageMaker gives the same reason for both. "
        "Its log shows which.",
        source="https://github.com/aws-samples/amazon-sagemaker-notebook-instance-lifecycle-config-samples/issues/86",
    ),
)


def known_reason(reason: str) -> KnownReason | None:
    """What is known about a FailureReason."""
    return next((item for item in KNOWN if item.text.lower() in reason.lower()), None)


def lacks_capacity(reason: str) -> bool:
    """Whether a notebook instance failed because its type has no capacity."""
    known = known_reason(reason)
    return known is not None and known.is_capacity


def failure(aws: Aws, name: str, reason: str) -> NotebookFailed:
    """The error for a notebook instance that has failed."""
    known = known_reason(reason)
    text = reason.rstrip(".") or "SageMaker names no reason"
    log = last_log_lines(aws, name)
    message = f"The notebook instance {name} failed: {text}."
    if log:
        message += "\n" + "\n".join(log)
    remedy = (
        known.remedy if known is not None else f"aws logs tail {LOG_GROUP} --log-stream-name-prefix {name}/"
    )
    return NotebookFailed(message, remedy, reason=reason)


def last_log_lines(aws: Aws, name: str, lines: int = _SHOWN_LINES) -> list[str]:
    """The last lines of the logs of lifecycle scripts, with the log's name; empty if they cannot be read."""
    found: list[str] = []
    try:
        for stream in aws.log_streams(LOG_GROUP, f"{name}/"):
            hook = stream.name.removeprefix(f"{name}/")
            if hook == "jupyter.log":
                continue
            events, _ = aws.last_log_events(LOG_GROUP, stream.name)
            found += [f"  {hook}: {event.message}" for event in events[-lines:]]
    except GPUproofError:
        return found  # the logs are only additional
    return found
