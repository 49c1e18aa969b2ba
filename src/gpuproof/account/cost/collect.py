"""Reads what GPUproof's runs, transform jobs, endpoints and notebooks cost. A part that cannot be read is reported, not counted as 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpuproof.account.cleanup.iam_policy import HINT, lacks_permission
from gpuproof.account.cleanup.inventory import endpoints
from gpuproof.account.cleanup.inventory.scan import Scan
from gpuproof.account.cleanup.inventory.workers import Workers
from gpuproof.account.cleanup.prices import hourly_cost
from gpuproof.account.cleanup.resource import TRANSFORM_TAG, Fleet, Kind, is_own
from gpuproof.account.cost.entry import UNKNOWN_TYPE, CostEntry, endpoint_entry, run_entry
from gpuproof.backends.aws import Aws
from gpuproof.backends.base import RunStore
from gpuproof.backends.registry import compared_backends
from gpuproof.catalogue import Catalogue
from gpuproof.errors import GPUproofError

_THREADS = 8


@dataclass(frozen=True)
class Costs:
    """What was read.

    Args:
        entries: the newest first.
        problems: what could not be read, and why.
        is_incomplete: whether AWS refused to list the endpoints, or what they cost.
    """

    entries: tuple[CostEntry, ...]
    problems: tuple[tuple[str, GPUproofError | None], ...]
    is_incomplete: bool = False


def collect(region: str | None, since: float, now: float, profile: str | None = None) -> Costs:
    """The costs of runs and transform jobs that were created after a time, and of endpoints and notebook instances that exist now.

    Args:
        region: that of the AWS configuration if None.
        since: seconds since the epoch.
        profile: the AWS profile; that of the environment if None.

    Raises:
        GPUproofError: nothing could be read.
    """
    found: list[CostEntry] = []
    problems: list[tuple[str, GPUproofError | None]] = []
    backends = compared_backends()
    for backend in backends:
        try:
            runs = backend.open(region=region, profile=profile).runs()
            found += _entries(runs, since)
            problems += [(note, None) for note in runs.notes]
        except GPUproofError as error:
            problems.append((f"runs {backend.location} are not counted: {error.message}", error))
    if len(problems) == len(backends) and not found and problems[0][1] is not None:
        raise problems[0][1]
    catalogue = Catalogue.load()
    with Scan(catalogue, profile=profile) as scan:
        name = region or scan.clients.default_region
        inventory = scan.inventory([name], (endpoints.collect,))
        found += [
            endpoint_entry(resource, since, now)
            for resource in inventory.resources
            if resource.kind is Kind.ENDPOINT and resource.owned
        ]
        problems += [
            (f"{failure.what} are not counted: {failure.message}", None) for failure in inventory.unread
        ]
        readers = (("batch transform jobs", transform_entries), ("notebook instances", notebook_entries))
        for what, read in readers:
            try:
                found += read(scan.aws(name), catalogue, since, now)
            except GPUproofError as error:
                problems.append((f"{what} are not counted: {error.message}", error))
    if any(lacks_permission(error) for _, error in problems) or any(
        failure.denied for failure in inventory.unread
    ):
        problems.append((HINT, None))
    entries = tuple(sorted(found, key=lambda cost_entry: -cost_entry.created))
    return Costs(entries, tuple(problems), bool(inventory.unread))


def _entries(runs: RunStore, since: float) -> Iterator[CostEntry]:
    for record in runs.records():
        if record.created < since:
            continue
        # Listings lack the times of some jobs.
        complete = record if "billed_seconds" in record.document else runs.run(record).record
        if (entry := run_entry(complete)) is not None:
            yield entry


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


def notebook_entries(aws: Aws, catalogue: Catalogue, since: float, now: float) -> list[CostEntry]:
    """The entries of the notebook instances that are in service.

    Args:
        since: count from here, in seconds since the epoch.
        now: seconds since the epoch.

    Raises:
        AwsRefused: the user may not list them or their tags.
    """
    listed = list(aws.list_notebooks(status="InService"))
    tags = aws.resource_tags(("sagemaker:notebook-instance",)) if listed else {}
    return [
        notebook_entry(line, aws.region, catalogue, since, now)
        for line in listed
        if is_own(tags.get(line["NotebookInstanceArn"]))
    ]


def notebook_entry(
    notebook: Mapping[str, Any], region: str, catalogue: Catalogue, since: float, now: float
) -> CostEntry:
    """The entry of a notebook instance in service: the time since its last change, which is its start.

    All changes but those of its status need a stopped instance, so that it has been in service since LastModifiedTime at the latest.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_UpdateNotebookInstance.html, and AWS's own script
    takes LastModifiedTime for the start of an instance that runs:
    https://github.com/aws-samples/amazon-sagemaker-notebook-instance-lifecycle-config-samples, scripts/auto-stop-idle/autostop.py
    """
    created = notebook["CreationTime"].timestamp()
    started = notebook.get("LastModifiedTime", notebook["CreationTime"]).timestamp()
    seconds = max(0.0, now - max(started, since))
    instance = notebook["InstanceType"]
    cost = hourly_cost(catalogue, (Fleet(instance, 1),), region, "notebook")
    return CostEntry(
        id=notebook["NotebookInstanceName"],
        job=notebook["NotebookInstanceName"],
        backend="notebook",
        region=region,
        instance_type=instance,
        instance_count=1,
        created=created,
        seconds=seconds,
        usd=None if cost is None else cost.usd * seconds / 3600,
        derived=True,
        saved_usd=0.0,
        running=True,
    )
