"""EventBridge Scheduler's requests: what the emulator cannot run is rejected, and moto stores the rest."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.schedules.expression import Expression, parse_expression
from gpuproof_emulator.execution.schedules.runner import ScheduleRunner
from gpuproof_emulator.execution.schedules.target import parse_target
from gpuproof_emulator.protocol import ACCOUNT, AwsError, AwsRequest, AwsResponse
from gpuproof_emulator.service_model import operation_model, validate

_CHANGES = ("CreateSchedule", "UpdateSchedule")
_EARLIEST_START_S = 300
_DEFAULT_GROUP = "default"


def handle(
    context: Context,
    runner: ScheduleRunner,
    operation: str,
    request: AwsRequest,
    forward: Callable[[], AwsResponse],
) -> AwsResponse:
    """Handle a request to EventBridge Scheduler.

    Args:
        runner: runs the schedules.
        forward: has moto handle it.

    Raises:
        AwsError: the request is invalid, or the emulator cannot run the schedule.
    """
    if operation not in _CHANGES:
        return forward()
    document: dict[str, Any] = {**request.document(), "Name": unquote(request.path.rpartition("/")[2])}
    model = operation_model(operation, "scheduler")
    if model is not None:
        validate(model, document)
    _check(document)
    _check_role(context, document["Target"]["RoleArn"])
    _check_stored(context, request.region, operation, document)
    response = forward()
    if operation == "UpdateSchedule" and document.get("State") is None:
        _enable(request.region, document)
    runner.notify()
    return response


def _check(document: dict[str, Any]) -> None:
    if document.get("KmsKeyArn") is not None:
        raise _unsupported("KmsKeyArn")
    if document["FlexibleTimeWindow"]["Mode"] != "OFF":
        raise _unsupported(f"FlexibleTimeWindow.Mode={document['FlexibleTimeWindow']['Mode']}")
    expression = parse_expression(document["ScheduleExpression"], document.get("ScheduleExpressionTimezone"))
    _check_times(expression, document)
    parse_target(document["Target"])


def _check_times(expression: Expression, document: dict[str, Any]) -> None:
    """Reject times in the past.

    Source: https://github.com/getmoto/moto/pull/8172 (StartDate), https://github.com/DefangLabs/pulumi-defang/pull/425 (at).
    """
    moment = time.time()
    if expression.once is not None:
        if expression.once < moment:
            raise AwsError(
                "ValidationException",
                f"Invalid Schedule Expression {document['ScheduleExpression']}: the time is in the past.",
            )
        return
    start, end = document.get("StartDate"), document.get("EndDate")
    if document.get("ActionAfterCompletion") == "DELETE" and end is None:
        raise _unsupported(
            "ActionAfterCompletion=DELETE for rate(…), which never completes without an EndDate"
        )
    if start is not None and start < moment - _EARLIEST_START_S:
        raise AwsError(
            "ValidationException", "The StartDate you specify cannot be earlier than 5 minutes ago."
        )
    if end is not None and end <= max(moment, start or 0.0):
        raise AwsError(
            "ValidationException", "The EndDate you specify must be in the future and after the StartDate."
        )


def _check_stored(context: Context, region: str, operation: str, document: dict[str, Any]) -> None:
    scheduler = context.clients.get("scheduler", region)
    group = document.get("GroupName") or _DEFAULT_GROUP
    try:
        scheduler.get_schedule_group(Name=group)
    except scheduler.exceptions.ResourceNotFoundException as error:
        raise AwsError("ResourceNotFoundException", f"Schedule group {group} does not exist.", 404) from error
    if operation == "CreateSchedule":
        return
    stored = scheduler.get_schedule(Name=document["Name"], GroupName=group)
    action = document.get("ActionAfterCompletion", "NONE")
    if action != (stored.get("ActionAfterCompletion") or "NONE"):
        raise _unsupported("a change of ActionAfterCompletion")


def _check_role(context: Context, arn: str) -> None:
    iam = context.clients.get("iam", "us-east-1")
    try:
        trust = iam.get_role(RoleName=arn.rpartition("/")[2])["Role"]["AssumeRolePolicyDocument"]
    except iam.exceptions.NoSuchEntityException:
        trust = ""
    if "scheduler.amazonaws.com" not in unquote(str(trust)):
        raise AwsError(
            "ValidationException",
            "The execution role you provide must allow AWS EventBridge Scheduler to assume the role.",
        )


def _enable(region: str, document: dict[str, Any]) -> None:
    """Enable a schedule: UpdateSchedule sets members that a request lacks to their defaults, moto sets the state to null.

    Source: botocore's service model of `scheduler`, UpdateSchedule.
    """
    from moto.scheduler.models import scheduler_backends  # loads slowly

    group = document.get("GroupName") or _DEFAULT_GROUP
    scheduler_backends[ACCOUNT][region].get_schedule(group, document["Name"]).state = "ENABLED"


def _unsupported(what: str) -> AwsError:
    return AwsError("ValidationException", f"This emulator does not support {what} (EventBridge Scheduler).")
