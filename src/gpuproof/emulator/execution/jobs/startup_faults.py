"""What may end a job before its instances are there: no capacity, no image, or a start that takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuproof.emulator.execution.jobs.job_control import Control
from gpuproof.emulator.operations.create_checks import CAPACITY

if TYPE_CHECKING:
    from gpuproof.emulator.emulator import Emulator

ENDED_WITH_EMULATOR = "InternalServerError: the emulator ended while the job ran. Please try again."


class JobFailed(Exception):
    """The job has failed; the message is its FailureReason."""


def begin(emulator: Emulator, control: Control, name: str, instance_type: str, *, warm: bool = False) -> None:
    """Let the faults strike that are meant for a job's start.

    Args:
        name: the job's.
        warm: whether the instances are there already.

    Raises:
        JobFailed: there is no capacity or no image.
    """
    faults = emulator.faults
    if not warm and (slow := faults.strike(("slow-start",), name=name, instance=instance_type)):
        control.pause(slow.seconds)
    if faults.strike(("capacity",), name=name, instance=instance_type, at="job"):
        raise JobFailed(f"CapacityError: {CAPACITY}")
    if faults.strike(("no-image",), name=name, instance=instance_type):
        raise JobFailed(
            "ClientError: Cannot pull algorithm container. Either the image does not exist or its permissions are"
            " incorrect."
        )
