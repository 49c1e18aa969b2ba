"""Completes what a submission was killed before: the ids of its instances, and the schedule that terminates them.

A client that dies right after RunInstances has created no schedule. The next command that sees the run creates it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.ec2.requests.termination_schedule import termination_call
from gpuproof.backends.ec2.tracking.outcome import is_overdue, living_instances, with_instances
from gpuproof.backends.remote.execute import execute
from gpuproof.backends.remote.s3_layout import RunLayout

_SOON_S = 300.0
"""Seconds until the first call of a schedule whose time has come already: StartDate may not be in the past."""


def completed_launch(
    aws: Aws, launch: LaunchRecord, instances: Mapping[str, Mapping[str, Any]] | None, now: float
) -> LaunchRecord:
    """The record of a launch with the ids of its instances, and with a schedule if its submission ended before that.

    Args:
        aws: the client of the bucket's region.
        instances: descriptions of the instances with the run's tag by id; None if the user may not describe them.
        now: in seconds since the epoch.
    """
    found = with_instances(launch, instances)
    was_killed = not launch.instances and len(found.instances) == found.instance_count
    if not (was_killed and is_overdue(found, now) and living_instances(found, instances)):
        return found
    if not found.schedule_role or found.schedule:
        return found
    call = termination_call(found, found.schedule_role, earliest=now + _SOON_S)
    try:
        execute(aws, call)
    except AwsUnreachable:
        return found
    except AwsRefused as refused:
        # Otherwise the submission has created it, or another command.
        if refused.code != "ConflictException":
            return found  # the plan, or the submission, has said what is not covered
    found = replace(found, schedule=call.request["Name"])
    with suppress(AwsRefused, AwsUnreachable):  # the schedule covers them nevertheless
        aws.put_object(found.bucket, RunLayout(found.run_id).launch, found.to_bytes())
    return found
