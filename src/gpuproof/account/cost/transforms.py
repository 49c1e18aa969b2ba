"""The batch transform jobs that GPUproof created, as entries of `gpuproof cost`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.account.cleanup.inventory.workers import Workers
from gpuproof.account.cleanup.prices import hourly_cost
from gpuproof.account.cleanup.resource import TRANSFORM_TAG, Fleet
from gpuproof.account.cost.entry import UNKNOWN_TYPE, CostEntry
from gpuproof.backends.aws import Aws
from gpuproof.catalogue import Catalogue

_THREADS = 8


def transform_entries(aws: Aws, catalogue: Catalogue, since: float, now: float) -> list[CostEntry]:
    """The entries of the jobs that were created after a time.

    Args:
        since, now: seconds since the epoch.

    Raises:
        AwsRefused: the user may not list the jobs or their tags.
    """
    tagged = dict(aws.tagged(TRANSFORM_TAG, resource_types=("sagemaker:transform-job",)))
    if not tagged:
        return []
    found = [job for job in aws.transform_jobs(created_after=since) if job["TransformJobArn"] in tagged]
    workers = Workers(min(_THREADS, max(1, len(found))))
    try:
        described = workers.map(lambda job: aws.transform_job(job["TransformJobName"]), found)
    finally:
        workers.close()
    entries = (transform_entry(entry, aws.region, catalogue, now) for entry in described if entry is not None)
    return [entry for entry in entries if entry is not None]


def transform_entry(
    job: Mapping[str, Any], region: str, catalogue: Catalogue, now: float
) -> CostEntry | None:
    """The entry of a job from its description; None for one whose instances have not started: nothing is billed for it.

    SageMaker bills the time from TransformStartTime to TransformEndTime.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTransformJob.html
    """
    start, end = job.get("TransformStartTime"), job.get("TransformEndTime")
    if start is None:
        return None
    seconds = max(0.0, (now if end is None else end.timestamp()) - start.timestamp())
    resources = job.get("TransformResources", {})
    instance, count = resources.get("InstanceType"), resources.get("InstanceCount", 1)
    cost = hourly_cost(catalogue, (Fleet(instance, count),), region, "transform") if instance else None
    return CostEntry(
        id=job["TransformJobName"],
        job=job["TransformJobName"],
        backend="transform",
        region=region,
        instance_type=instance or UNKNOWN_TYPE,
        instance_count=count,
        created=job["CreationTime"].timestamp(),
        seconds=seconds,
        usd=None if cost is None else cost.usd * seconds / 3600,
        derived=cost is not None and cost.derived,
        saved_usd=0.0,
        running=end is None,
    )
