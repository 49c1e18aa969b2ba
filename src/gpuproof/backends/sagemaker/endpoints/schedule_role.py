"""Finds the role that EventBridge Scheduler assumes to delete an endpoint."""

from __future__ import annotations

from gpuproof.backends.aws import Aws, AwsRefused
from gpuproof.errors import UsageError
from gpuproof.settings import schedule_role_arn

SERVICE = "scheduler.amazonaws.com"
VARIABLE = "GPUPROOF_SCHEDULE_ROLE_ARN"
ROLE = "gpuproof-scheduler"
"""The name under which `gpuproof iam policy --on scheduler` creates it."""

_CREATE = "gpuproof iam policy --on scheduler prints its trust policy, its permissions, and how to create it"


def find_schedule_role(aws: Aws, given: str | None) -> str:
    """The ARN of the role of the schedule.

    Args:
        given: its name or ARN; None for GPUPROOF_SCHEDULE_ROLE_ARN, then for the role gpuproof-scheduler.

    Raises:
        UsageError: it does not exist, or EventBridge Scheduler may not assume it.
    """
    name = given or schedule_role_arn() or ROLE
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
            f"--ttl needs a role that EventBridge Scheduler may assume, but there is no role {name}.",
            remedy=f"{_CREATE}; name another with --schedule-role or {VARIABLE}.",
        )
    if SERVICE not in role.trusted_services:
        trusted = ", ".join(role.trusted_services) or "no service"
        raise UsageError(
            f"EventBridge Scheduler may not assume the role {role.name}: its trust policy names {trusted}, not {SERVICE}.",
            remedy=f"{_CREATE}.",
        )
    return role.arn
