"""Faults that act on a job before its instances start: a slow start, no capacity or no image."""

from __future__ import annotations

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.jobs.job_control import JobControl, JobFailed
from gpuproof_emulator.faults.responses import NO_CAPACITY


def apply_startup_faults(
    context: Context, control: JobControl, name: str, instance_type: str, *, warm: bool = False
) -> None:
    """Trigger the faults that match a starting job.

    Args:
        name: of the job.
        warm: whether the job uses the instances of a warm pool, which start at once.

    Raises:
        JobFailed: a fault simulates a lack of capacity or a missing image.
    """
    faults = context.faults
    if not warm and (slow := faults.trigger(("slow-start",), name=name, instance=instance_type)):
        control.pause(slow.seconds)
    if faults.trigger(("capacity",), name=name, instance=instance_type, at="job"):
        raise JobFailed(f"CapacityError: {NO_CAPACITY}")
    if faults.trigger(("no-image",), name=name, instance=instance_type):
        raise JobFailed(
            "ClientError: Cannot pull algorithm container. Either the image does not exist or its permissions are"
            " incorrect."
        )
