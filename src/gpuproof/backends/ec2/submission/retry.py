"""The plan of another run after a spot interruption."""

from __future__ import annotations

from dataclasses import replace

from gpuproof.backends.ec2.launch_record import InterruptedRun
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.submission.submission import Launched
from gpuproof.backends.ec2.target import EC2Target, Zone
from gpuproof.backends.remote.run_id import new_run_id


def retry_plan(first: EC2Plan, plan: EC2Plan, launched: Launched, interrupted: InterruptedRun) -> EC2Plan:
    """The plan of the next attempt, under another name and with the same checkpoints.

    All instance types of the job are tried again; the zone that has reclaimed the instance is the last of its type.

    Args:
        first: the plan of the first run, with all instance types and zones.
        plan: the plan of the interrupted run.
        interrupted: what it cost.
    """
    return replace(
        first,
        run_id=new_run_id(first.job.name),
        targets=tuple(
            _with_last(target, launched.zone)
            if (target.name, target.region) == (launched.target.name, launched.target.region)
            else target
            for target in first.targets
        ),
        retries=plan.retries.after(interrupted),
        bucket=replace(first.bucket, calls=(), note=None),
        log_calls=(),
    )


def retry_note(plan: EC2Plan, launched: Launched) -> str:
    """Why and how it is started again, for the user."""
    where = launched.target.name + (f" in {launched.zone.name}" if launched.zone.name else "")
    how = "from its checkpoints" if plan.checkpoints else "from the beginning"
    number = f"retry {len(plan.retries.interrupted)} of {plan.retries.limit}"
    return f"EC2 has reclaimed {where}; starting again {how} ({number})"


def _with_last(target: EC2Target, zone: Zone) -> EC2Target:
    """The target with one of its zones at the end."""
    return replace(target, zones=tuple(sorted(target.zones, key=lambda one: one == zone)))
