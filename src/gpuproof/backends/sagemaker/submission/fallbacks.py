"""Attempts at a run, one instance type after another, where AWS turns out to have no such machine free."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.backends.sagemaker.backend import SageMakerPlace
from gpuproof.backends.sagemaker.plan import SageMakerPlan
from gpuproof.backends.sagemaker.submission.capacity import Tried, failed_for_capacity, not_to_be_had, told_of
from gpuproof.backends.sagemaker.submission.submit import Started
from gpuproof.backends.sagemaker.tracking.progress import Watch


def attempts(place: SageMakerPlace, plan: SageMakerPlan, watch: Watch | None = None) -> Iterator[Started]:
    """Submit, and whenever the run that was given has failed for want of capacity, submit again on the next type.

    Whoever takes a run waits for its end before asking for the next; the last is the one that counts.

    Raises:
        NotToBeHad: no type is left.
    """
    tried: tuple[Tried, ...] = ()
    while True:
        started = None
        try:
            started = place.submit(plan, watch, before=tried)
            yield started
        except KeyboardInterrupt:
            # It came when the job was made and nobody had it yet.
            if started is not None:
                started.run.stop()
            raise
        record = started.run.record
        code = failed_for_capacity(record)
        if code is None:
            return
        reason = record.failure_reason or ""
        tried = (*started.tried, told_of(plan, started.target, code, reason, place.catalogue))
        _tidy(place, started)
        following = plan.next(started.target.name)
        if following is None:
            raise not_to_be_had(tried, plan, place.catalogue)
        if watch is not None:
            watch.note(f"AWS has no {started.target.name} free; trying {following.target.name}")
        plan = following


def _tidy(place: SageMakerPlace, started: Started) -> None:
    """A run that never started needs its files no more; SageMaker keeps its record."""
    bucket, prefix = started.plan.bucket.name, started.plan.layout.prefix
    place.aws.delete_objects(bucket, [item.key for item in place.aws.list_objects(bucket, prefix)])
