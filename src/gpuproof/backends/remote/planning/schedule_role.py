"""Finds the role with which EventBridge Scheduler deletes what costs money."""

from __future__ import annotations

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.backends.remote.iam.policy import ROLE_NAMES, SERVICES
from gpuproof.errors import UsageError
from gpuproof.settings import schedule_role_arn

SERVICE = SERVICES["scheduler"]
VARIABLE = "GPUPROOF_SCHEDULE_ROLE_ARN"
_CREATE = "gpuproof setup creates it; gpuproof iam policy --on scheduler prints its trust policy and its permissions"


def find_schedule_role(aws: Aws, purpose: str, given: str | None = None) -> str:
    """The ARN of the role of schedules.

    Args:
        purpose: what needs it, for the error.
        given: its name or ARN; None for GPUPROOF_SCHEDULE_ROLE_ARN, then for the role gpuproof-scheduler.

    Raises:
        UsageError: it does not exist, or EventBridge Scheduler may not assume it.
    """
    name = given or schedule_role_arn() or ROLE_NAMES["scheduler"]
    caller = aws.caller()
    arn = name if name.startswith("arn:") else f"arn:{caller.partition}:iam::{caller.account}:role/{name}"
    try:
        role = aws.role(name)
    except AwsRefused as refused:
        if refused.is_permission:
            return arn  # the request itself will show whether it can be assumed
        raise
    if role is None:
        raise UsageError(
            f"{purpose} needs a role that EventBridge Scheduler may assume, but there is no role {name}.",
            remedy=f"{_CREATE}; name another with --schedule-role or {VARIABLE}.",
        )
    if SERVICE not in role.trusted_services:
        trusted = ", ".join(role.trusted_services) or "no service"
        raise UsageError(
            f"EventBridge Scheduler may not assume the role {role.name}: its trust policy names {trusted}, not {SERVICE}.",
            remedy=f"{_CREATE}.",
        )
    return role.arn
