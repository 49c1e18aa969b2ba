"""Finds a job, an endpoint or an EC2 instance by its name in several regions, with what CloudWatch says about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gpuproof.account.audit.collect import audit_region
from gpuproof.account.audit.endpoints import endpoint_workload
from gpuproof.account.audit.instances import AGENT, AGENT_GPU, instance_workload
from gpuproof.account.audit.jobs import (
    processing_workload,
    training_workload,
    transform_hosts,
    transform_workload,
)
from gpuproof.account.audit.row import AuditRow
from gpuproof.account.audit.utilization import period_of, window_of
from gpuproof.account.audit.workload import Workload
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.inventory.scan import Scan
from gpuproof.account.cleanup.resource import JOBS, Kind
from gpuproof.backends.aws.services.audit import MetricQuery
from gpuproof.errors import UsageError

_ARN = re.compile(r"arn:aws[\w-]*:sagemaker:(?P<region>[\w-]+):\d*:(?P<kind>[\w-]+)/(?P<name>.+)")
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")
_MEMORY_METRIC = "MemoryUtilization"
_RECENT_S = 14 * 86_400.0
"""Endpoints and EC2 instances are shown for the last two weeks."""


@dataclass(frozen=True)
class Found:
    """A job or a variant of an endpoint.

    Args:
        description: what AWS says of it.
        host_memory: the most of its memory that a host used, in percent; None if unknown.
    """

    region: Region
    row: AuditRow
    description: Mapping[str, Any]
    host_memory: float | None


@dataclass(frozen=True)
class Target:
    """What to look for.

    Args:
        name: of a job or an endpoint, or the id of an EC2 instance.
        region: where; None for any of them.
    """

    name: str
    region: str | None = None

    @classmethod
    def parse(cls, text: str) -> Target:
        """A name, or an ARN."""
        match = _ARN.fullmatch(text)
        return cls(text) if match is None else cls(match["name"], match["region"])


def find(scan: Scan, regions: Sequence[str], name: str, now: float) -> tuple[list[Found], list[Region]]:
    """Jobs and variants of endpoints with a name that have GPUs, and the regions that were read.

    Args:
        now: seconds since the epoch.

    Raises:
        NoCredentials: there are no usable credentials.
        UsageError: there is none, or one without GPUs.
    """
    read = scan.regions(regions, now)
    results = scan.call_each([partial(_find_in, region, name) for region in read])
    described = [(region, *match) for region, matches in zip(read, results, strict=True) for match in matches]
    if not described and not any(region.unread for region in read):
        raise UsageError(
            f"No job, endpoint or EC2 instance is named {name}.",
            remedy="gpuproof audit lists those of the last 30 days.",
        )
    found: list[Found] = []
    for region, kind, description in described:
        workloads = [workload for workload in _workloads(region, kind, description) if workload is not None]
        rows, _ = audit_region(region, workloads)
        found += [Found(region, row, description, _host_memory(region, row.workload)) for row in rows]
    if described and not found:
        kind, region = described[0][1], described[0][0].name
        raise UsageError(
            f"The {str(kind).replace('-', ' ')} {name} in {region} has no GPU, or never started."
        )
    return found, read


def _find_in(region: Region, name: str) -> list[tuple[Kind, Mapping[str, Any]]]:
    """All that a region has of a name."""
    aws = region.aws
    if _INSTANCE_ID.fullmatch(name):
        instances = region.read("EC2 instances", "ec2", partial(aws.instances, [name]))
        return [(Kind.INSTANCE, instance) for instance in instances or ()]
    requests = {
        Kind.TRAINING: partial(aws.describe_job, "training", name),
        Kind.PROCESSING: partial(aws.describe_job, "processing", name),
        Kind.TRANSFORM: partial(aws.transform_job, name),
        Kind.ENDPOINT: partial(aws.describe_endpoint, name),
    }
    found = {kind: region.read(f"{kind}s", "sagemaker", request) for kind, request in requests.items()}
    return [(kind, description) for kind, description in found.items() if description is not None]


def _workloads(region: Region, kind: Kind, description: Mapping[str, Any]) -> Iterable[Workload | None]:
    if kind is Kind.TRAINING:
        return [training_workload(region, description)]
    if kind is Kind.PROCESSING:
        return [processing_workload(region, description)]
    if kind is Kind.TRANSFORM:
        hosts = transform_hosts(region, [description["TransformJobName"]])
        return [transform_workload(region, description, hosts)]
    since = region.now - _RECENT_S
    if kind is Kind.INSTANCE:
        listed = partial(region.aws.published_dimensions, AGENT, AGENT_GPU)
        published = region.read("utilization of EC2 instances", "cloudwatch", lambda: list(listed()))
        return [instance_workload(region, description, published or (), since)]
    name = description.get("EndpointConfigName", "")
    config = region.read(
        "instances of endpoints", "sagemaker", partial(region.aws.describe_endpoint_config, name)
    )
    return [
        endpoint_workload(region, description, variant, since)
        for variant in (config or {}).get("ProductionVariants") or ()
    ]


def _host_memory(region: Region, workload: Workload) -> float | None:
    """The most of its memory that a host used, in percent; None if a host has no value."""
    window = window_of(workload, region.now)
    period = None if window is None else period_of(*window, region.now)
    if window is None or period is None or not workload.sources:
        return None
    queries = [
        MetricQuery(source.gpu.namespace, _MEMORY_METRIC, source.gpu.dimensions, "Maximum", period)
        for source in workload.sources
    ]
    start, end = window[0] // period * period, window[1] // period * period + period
    values = region.read("memory", "cloudwatch", partial(region.aws.metric_values, queries, start, end))
    if values is None or not all(series.values for series in values):
        return None
    return max(max(series.values) for series in values)


def log_group(workload: Workload) -> tuple[str, str] | None:
    """The log group of a job or an endpoint, and how the names of its streams begin; None for an EC2 instance.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
    """
    if workload.kind in JOBS:
        return _GROUPS[workload.kind], workload.name
    if workload.kind is Kind.INSTANCE:
        return None
    return f"/aws/sagemaker/Endpoints/{workload.name}", workload.variant


_GROUPS = {
    Kind.TRAINING: "/aws/sagemaker/TrainingJobs",
    Kind.PROCESSING: "/aws/sagemaker/ProcessingJobs",
    Kind.TRANSFORM: "/aws/sagemaker/TransformJobs",
}
