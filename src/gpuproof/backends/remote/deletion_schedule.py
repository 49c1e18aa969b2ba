"""Recurring schedules of EventBridge Scheduler that delete a resource in AWS, whether or not this machine still runs.

A schedule calls an operation of a service from its start on, every few minutes for a day: the resource may be in a state in
which AWS refuses to delete it, and whether EventBridge Scheduler retries such a refusal is not documented. A call for a
resource that no longer exists is refused, which costs nothing.

Sources: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html,
https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuproof.backends.api_call import ApiCall

EVERY_MINUTES = 5
LASTS_S = 24 * 3600.0
"""Seconds from the first call to the last."""

_LONGEST_NAME = 64
_AT = re.compile(r"at\((.+)\)")
_MEMBERS = (
    "Name",
    "GroupName",
    "ScheduleExpression",
    "ScheduleExpressionTimezone",
    "StartDate",
    "EndDate",
    "Description",
    "State",
    "KmsKeyArn",
    "Target",
    "FlexibleTimeWindow",
    "ActionAfterCompletion",
)
"""The members of GetSchedule's response that UpdateSchedule accepts."""


@dataclass(frozen=True)
class DeletionSchedule:
    """The schedule of one resource.

    Args:
        name: the schedule's; see `schedule_name`.
        resource: what it deletes, such as `the endpoint digits`.
        target: service and operation, such as `sagemaker:deleteEndpoint`.
        request: the operation's input.
    """

    name: str
    resource: str
    target: str
    request: Mapping[str, Any]

    def create(self, start: float, role: str, partition: str) -> ApiCall:
        """CreateSchedule.

        Args:
            start: when it calls first, in seconds since the epoch.
            role: the ARN of the role that EventBridge Scheduler assumes.
        """
        request = {
            "Name": self.name,
            "Description": f"GPUproof: deletes {self.resource}",
            "ScheduleExpression": f"rate({EVERY_MINUTES} minutes)",
            "StartDate": _date(start),
            "EndDate": _date(start + LASTS_S),
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "State": "ENABLED",
            "ActionAfterCompletion": "DELETE",
            "Target": {
                "Arn": f"arn:{partition}:scheduler:::aws-sdk:{self.target}",
                "RoleArn": role,
                "Input": json.dumps(dict(self.request)),
                # The next call is the retry: a late one could delete a new resource of the same name.
                "RetryPolicy": {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60},
            },
        }
        what = f"create the schedule {self.name}, which deletes {self.resource} at {format_start(start)}"
        return ApiCall("scheduler", "create_schedule", request, what, self.delete())

    def move(self, stored: Mapping[str, Any], start: float, role: str, partition: str) -> ApiCall:
        """UpdateSchedule: moves a schedule in one request, so that the resource never lacks one.

        Args:
            stored: the description of the old schedule, from GetSchedule.
        """
        request = self.create(start, role, partition).request
        old = format_start(starts_at(stored))
        what = f"move the schedule {self.name} from {old} to {format_start(start)}"
        return ApiCall("scheduler", "update_schedule", request, what, self.restore(stored, start))

    def restore(self, stored: Mapping[str, Any], now: float) -> ApiCall:
        """UpdateSchedule: returns a schedule that was moved to its old time, or to now if that has passed.

        UpdateSchedule resets every member that a request lacks, and refuses times in the past.
        Source: https://docs.aws.amazon.com/scheduler/latest/APIReference/API_UpdateSchedule.html
        """
        request: Mapping[str, Any] = {
            key: stored[key] for key in _MEMBERS if stored.get(key) not in (None, "")
        }
        start = starts_at(stored)
        if start <= now:
            target = stored["Target"]
            new = self.create(now, target["RoleArn"], target["Arn"].split(":")[1])
            request, start = new.request, now
        what = f"return the schedule {self.name} to {format_start(start)}"
        return ApiCall("scheduler", "update_schedule", request, what)

    def delete(self) -> ApiCall:
        """DeleteSchedule."""
        return ApiCall(
            "scheduler", "delete_schedule", {"Name": self.name}, f"delete the schedule {self.name}"
        )

    def is_stored_as(self, stored: Mapping[str, Any]) -> bool:
        """Whether a schedule of this name, from GetSchedule, deletes this resource."""
        target = stored.get("Target") or {}
        try:
            request = json.loads(target.get("Input") or "{}")
        except ValueError:
            return False
        return str(target.get("Arn", "")).endswith(f":{self.target}") and request == dict(self.request)


def schedule_name(name: str) -> str:
    """The name of the schedule of a resource: at most 64 characters, another for each resource."""
    whole = f"gpuproof-{name}"
    if len(whole) <= _LONGEST_NAME:
        return whole
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return f"{whole[: _LONGEST_NAME - len(digest) - 1]}-{digest}"


def starts_at(stored: Mapping[str, Any]) -> float:
    """When a schedule first calls, in seconds since the epoch; earlier versions of GPUproof created one-time schedules."""
    if found := _AT.fullmatch(stored["ScheduleExpression"]):
        return datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()
    start = stored.get("StartDate") or stored["CreationDate"]
    return start.timestamp() if isinstance(start, datetime) else datetime.fromisoformat(start).timestamp()


def format_start(seconds: float) -> str:
    """A time for people."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
