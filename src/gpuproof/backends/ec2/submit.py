"""Starts a run, another elsewhere when EC2 had no capacity for its instance after all, and another after a spot interruption."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from gpuproof.backends.aws import Aws
from gpuproof.backends.ec2.plan import EC2Plan
from gpuproof.backends.ec2.requests.new_instances import when_visible
from gpuproof.backends.ec2.run import EC2Run
from gpuproof.backends.ec2.submission.capacity import no_capacity, unavailable_type
from gpuproof.backends.ec2.submission.retry import retry_note, retry_plan
from gpuproof.backends.ec2.submission.submission import Launched, submit_once
from gpuproof.backends.ec2.tracking.silence import SilenceLimits
from gpuproof.backends.ec2.tracking.state_reason import NO_CAPACITY
from gpuproof.backends.errors import UnavailableType
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.remote.run_id import new_run_id
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError
from gpuproof.settings import first_report_seconds


def submit(
    plan: EC2Plan,
    aws: Aws,
    progress: SubmitProgress,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[EC2Run]:
    """Start a run; after a run that lacked capacity, start another in the next zone, on the next instance type or in the
    next region.

    After a spot interruption, another run continues from the checkpoints, as often as the plan allows; all instance types
    are tried for it.

    The caller waits for the end of a run before it takes the next. The last run is the result.

    Args:
        sleep: waits for a number of seconds.

    Raises:
        NoCapacity: no zone of no instance type is left.
        GPUproofError: a request failed; what was created has been deleted.
    """
    catalogue = Catalogue.load()
    silence_limits = SilenceLimits(first_report_seconds())
    first = plan
    interrupted: EC2Run | None = None
    tried: tuple[UnavailableType, ...] = ()
    while True:
        run: EC2Run | None = None
        launched: Launched | None = None
        try:
            launched = submit_once(plan, aws, catalogue, progress, before=tried, sleep=sleep)
            run = EC2Run(
                aws, launched.record, catalogue=catalogue, sleep=sleep, silence_limits=silence_limits
            )
            if interrupted is not None:
                _record_continuation(interrupted, run.id)
            yield run
        except KeyboardInterrupt:
            # Interrupted after the instance was launched and before the caller had the run.
            if launched is not None:
                regional, ids = aws.in_region(launched.record.region), launched.record.instances
                when_visible(partial(regional.terminate_instances, ids), sleep)
            raise
        if not run.lacked_capacity:
            cost = run.interruption if plan.retries.left else None
            if cost is None:
                return
            interrupted, tried = run, ()
            _terminate_other_hosts(run)
            plan = retry_plan(first, plan, launched, cost)
            progress.report("note", retry_note(plan, launched))
            continue
        unavailable = unavailable_type(
            plan, launched.target, launched.zone, NO_CAPACITY, run.record.failure_reason or "", catalogue
        )
        tried = (*launched.tried, unavailable)
        run.remove()
        following = _next_plan(plan, launched)
        if following is None:
            if interrupted is not None:
                _record_continuation(interrupted, "")
            raise no_capacity(tried, plan, catalogue)
        progress.report("note", f"EC2 has no capacity for {unavailable.where}; {_next_text(following)}")
        plan = following


def _record_continuation(interrupted: EC2Run, run_id: str) -> None:
    """Record which run continues an interrupted one: for `gpuproof show`, so a failure is ignored."""
    with contextlib.suppress(GPUproofError):
        interrupted.record_continuation(run_id)


def _terminate_other_hosts(run: EC2Run) -> None:
    """Terminate the instances of an interrupted run that EC2 has left: they use quota that the next run needs.

    All hosts have ended and power off by themselves, so a failure is ignored.
    """
    if run.launch.instance_count > 1:
        with contextlib.suppress(GPUproofError):
            run.stop(at_once=True)


def _next_plan(plan: EC2Plan, launched: Launched) -> EC2Plan | None:
    """The plan of another run, under another name, on what follows the zone that was tried; None after the last."""
    types = [(target.region, target.name) for target in plan.targets]
    position = types.index((launched.target.region, launched.target.name))
    target = plan.targets[position]
    zones = target.zones[target.zones.index(launched.zone) + 1 :]
    same = (replace(target, zones=zones),) if zones else ()
    targets = (*same, *plan.targets[position + 1 :])
    if not targets:
        return None
    return replace(
        plan,
        run_id=new_run_id(plan.job.name),
        targets=targets,
        bucket=replace(plan.bucket, calls=(), note=None),
        log_calls=(),
    )


def _next_text(plan: EC2Plan) -> str:
    zone = next((zone.name for zone in plan.target.zones if zone.name), "")
    return f"trying {plan.target.name}" + (f" in {zone}" if zone else "")
