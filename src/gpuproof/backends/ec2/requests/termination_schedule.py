"""The schedule in AWS that terminates the instances of a run that nothing else has ended: it needs nothing that runs on them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws import Aws, AwsRefused, AwsUnreachable
from gpuproof.backends.ec2.launch_record import LaunchRecord
from gpuproof.backends.remote.deletion_schedule import DeletionSchedule, schedule_name
from gpuproof.backends.remote.execute import execute

MARGIN_S = 1800.0
"""Seconds from the time limit to the first call: `max_duration` counts from the boot, the schedule from the launch."""


def termination_schedule(record: LaunchRecord) -> DeletionSchedule:
    """The schedule of a run's instances; no endpoint has a name with a period, so that theirs differ."""
    noun = "instance" if len(record.instances) == 1 else "instances"
    return DeletionSchedule(
        schedule_name(f"ec2.{record.run_id}"),
        f"the {noun} of {record.run_id}",
        "ec2:terminateInstances",
        {"InstanceIds": list(record.instances)},
    )


def delete_schedule(aws: Aws, record: LaunchRecord) -> None:
    """Delete the schedule of instances that are terminated; where that fails, it deletes itself a day after its first call.

    Args:
        aws: the client of the region of the instances.
    """
    if record.schedule:
        with suppress(AwsRefused, AwsUnreachable):
            execute(aws, termination_schedule(record).delete())


def termination_call(record: LaunchRecord, role: str, earliest: float = 0.0) -> ApiCall:
    """CreateSchedule, in the region of the instances.

    Args:
        earliest: time of the first call, at the earliest.
        record: with the ids of the instances.
        role: the ARN of the role that EventBridge Scheduler assumes.
    """
    start = max(earliest, (record.launching or record.created) + record.max_duration + MARGIN_S)
    call = termination_schedule(record).create(start, role, role.split(":")[1])
    return replace(call, region=record.region)
