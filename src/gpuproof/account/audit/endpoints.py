"""Variants of endpoints with GPUs: those that exist, and deleted ones that CloudWatch still has values of.

All instances of a variant publish under the same dimensions, EndpointName and VariantName: averages are those of one instance, and the
largest value is that of the busiest.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuproof.account.audit.hardware import gpu_name, gpus_each, gpus_of, may_have_gpu
from gpuproof.account.audit.jobs import CPU_METRIC, GPU_METRIC, MEMORY_METRIC
from gpuproof.account.audit.workload import Metric, Source, Workload
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import Fleet, Kind

ENDPOINTS = "/aws/sagemaker/Endpoints"
DELETED = "Deleted"
"""The status of endpoints that exist in CloudWatch only."""

_DIMENSIONS = ("EndpointName", "VariantName")


def collect_endpoints(region: Region, since: float) -> list[Workload]:
    """The variants of endpoints, deleted ones included."""
    found = region.read("endpoints", "sagemaker", region.aws.search_endpoints)
    if found is None:
        return []
    names = sorted(
        {endpoint["EndpointConfigName"] for endpoint in found.values() if endpoint.get("EndpointConfigName")}
    )
    described = region.read_each(
        "instances of endpoints", "sagemaker", region.aws.describe_endpoint_config, names
    )
    configs = dict(zip(names, described, strict=True))
    existing = [
        workload
        for endpoint in found.values()
        for variant in (configs.get(endpoint.get("EndpointConfigName", "")) or {}).get("ProductionVariants")
        or ()
        if (workload := endpoint_workload(region, endpoint, variant, since)) is not None
    ]
    return [*existing, *_deleted(region, found, since)]


def endpoint_workload(
    region: Region, endpoint: Mapping[str, Any], variant: Mapping[str, Any], since: float
) -> Workload | None:
    """A variant of an endpoint; None if it has no instances with GPUs.

    Args:
        endpoint: its description; variant: of its configuration.
        since: count from here, in seconds since the epoch.
    """
    name, label, instance = endpoint["EndpointName"], variant["VariantName"], variant.get("InstanceType")
    now = {entry["VariantName"]: entry for entry in endpoint.get("ProductionVariants") or ()}.get(label, {})
    count = now.get("CurrentInstanceCount", 0)
    fleets = (Fleet(instance, count),) if instance else ()
    if not count or not may_have_gpu(region.catalogue, fleets):
        return None
    created = endpoint["CreationTime"].timestamp()
    start = max(created, since)
    seconds = max(0.0, region.now - start)
    cost = region.cost(fleets, "endpoint")
    tags = {tag["Key"]: tag["Value"] for tag in endpoint["Tags"]} if "Tags" in endpoint else None
    return Workload(
        kind=Kind.ENDPOINT,
        region=region.name,
        name=name,
        arn=endpoint["EndpointArn"],
        status=endpoint["EndpointStatus"],
        variant=label,
        fleets=fleets,
        gpus=gpus_of(region.catalogue, fleets),
        gpu_name=gpu_name(region.catalogue, fleets),
        created=created,
        start=start,
        active_seconds=seconds,
        billed_seconds=seconds,
        usd_per_hour=None if cost is None else cost.usd,
        is_estimate=True,
        is_running=True,
        tags=tags,
        sources=(_source(name, label, gpus_each(region.catalogue, fleets)),),
        notes=("its present instances are counted for all the time",),
    )


def _deleted(region: Region, existing: Iterable[str], since: float) -> list[Workload]:
    """Variants of endpoints that CloudWatch had values of in the last two weeks, and that do not exist any more."""
    published = region.read(
        "deleted endpoints",
        "cloudwatch",
        lambda: list(region.aws.published_dimensions(ENDPOINTS, GPU_METRIC)),
    )
    known = set(existing)
    variants = sorted(
        {
            (dimensions["EndpointName"], dimensions["VariantName"])
            for dimensions in published or ()
            if sorted(dimensions) == sorted(_DIMENSIONS) and dimensions["EndpointName"] not in known
        }
    )
    return [
        Workload(
            kind=Kind.ENDPOINT,
            region=region.name,
            name=name,
            status=DELETED,
            variant=variant,
            start=since,
            end=region.now,
            sources=(_source(name, variant, None),),
            notes=("it was deleted: its instance type is in CloudTrail only",),
        )
        for name, variant in variants
    ]


def _source(endpoint: str, variant: str, gpus: int | None) -> Source:
    dimensions = (("EndpointName", endpoint), ("VariantName", variant))
    return Source(
        variant,
        gpus,
        Metric(ENDPOINTS, GPU_METRIC, dimensions),
        Metric(ENDPOINTS, MEMORY_METRIC, dimensions),
        Metric(ENDPOINTS, CPU_METRIC, dimensions),
        is_average=True,
    )
