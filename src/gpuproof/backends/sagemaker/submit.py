"""Starts a run, and another on the next instance type whenever one turns out to lack capacity."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from gpuproof.backends.aws import Aws
from gpuproof.backends.errors import UnavailableType
from gpuproof.backends.progress import SubmitProgress
from gpuproof.backends.sagemaker.plan import SageMakerPlan
from gpuproof.backends.sagemaker.run import SageMakerRun
from gpuproof.backends.sagemaker.submission.capacity import no_capacity, unavailable_type
from gpuproof.backends.sagemaker.submission.submission import submit_once
from gpuproof.backends.sagemaker.tracking.records import capacity_error_code
from gpuproof.catalogue import Catalogue


def submit(
    plan: SageMakerPlan,
    aws: Aws,
    progress: SubmitProgress,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[SageMakerRun]:
    """Start a run; after a run that lacked capacity, start another on the next instance type.

    The caller waits for the end of a run before it takes the next. The last run is the result.

    Args:
        sleep: waits for a number of seconds.

    Raises:
        NoCapacity: no instance type is left.
        GPUproofError: a request failed; what was created has been deleted.
    """
    catalogue = Catalogue.load()
    tried: tuple[UnavailableType, ...] = ()
    while True:
        submitted = None
        try:
            submitted = submit_once(plan, aws, catalogue, progress, before=tried, sleep=sleep)
            yield submitted.run
        except KeyboardInterrupt:
            # Interrupted after the job was created and before the caller had it.
            if submitted is not None:
                submitted.run.stop()
            raise
        record = submitted.run.record
        code = capacity_error_code(record)
        if code is None:
            return
        unavailable = unavailable_type(plan, submitted.target, code, record.failure_reason or "", catalogue)
        tried = (*submitted.tried, unavailable)
        _delete_files(aws, plan)
        following = plan.next_plan(submitted.target.name)
        if following is None:
            raise no_capacity(tried, plan, catalogue)
        progress.report(
            "note", f"AWS has no capacity for {submitted.target.name}; trying {following.target.name}"
        )
        plan = following


def _delete_files(aws: Aws, plan: SageMakerPlan) -> None:
    """Delete the files of a run that never started; SageMaker keeps its record."""
    bucket = plan.bucket.name
    aws.delete_objects(bucket, [item.key for item in aws.list_objects(bucket, plan.layout.prefix)])
