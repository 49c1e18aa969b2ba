"""Endpoints with what they cost and how long they have been idle, and the models and configurations that none uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.account.cleanup.inventory.endpoint_listing import Listing, read_listing
from gpuproof.account.cleanup.inventory.endpoint_parts import lost_schedules, own_parts, unused
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import Action, Fleet, HourlyCost, Kind, Resource, is_own
from gpuproof.backends.aws.services.cloudwatch_metrics import Variant

_BUSY = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
"""Statuses in which SageMaker rejects DeleteEndpoint: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html"""


def collect(region: Region) -> list[Resource]:
    """All endpoints; unused configurations and models; schedules of GPUproof whose endpoint does not exist."""
    listing = read_listing(region)
    if listing is None:
        return []
    idle = _last_invocations(region, listing)
    return [
        *(_endpoint(region, endpoint, listing, idle) for endpoint in listing.endpoints),
        *unused(region, listing),
        *lost_schedules(region, listing),
    ]


def _endpoint(
    region: Region,
    summary: Mapping[str, Any],
    listing: Listing,
    idle: Mapping[str, float | None] | None,
) -> Resource:
    name, arn, status = summary["EndpointName"], summary["EndpointArn"], summary["EndpointStatus"]
    description = listing.descriptions.get(name, {})
    config = listing.live_configs.get(description.get("EndpointConfigName", ""))
    fleets, serverless = _fleets(description, config, status)
    pooled = any("InstancePools" in variant for variant in (config or {}).get("ProductionVariants", ()))
    known = config is not None and (bool(fleets) or not pooled)
    cost = region.cost(fleets, "endpoint") if known else None
    created = summary["CreationTime"].timestamp()
    tags = region.tags(arn)
    owned = is_own(tags)
    idle_seconds, never = _idle(region, name, created, idle)
    note = "serverless: billed by requests" if serverless and not fleets else ""
    return Resource(
        Kind.ENDPOINT,
        region.name,
        name,
        arn,
        status,
        Action.NONE if status in _BUSY else Action.DELETE,
        fleets,
        HourlyCost(0.0) if serverless and not fleets else cost,
        region.has_gpu(fleets) or not known,
        created,
        idle_seconds,
        never,
        tags,
        owned,
        note=f"it is {status}: SageMaker does not delete it now" if status in _BUSY else note,
        details=own_parts(region, name, listing) if owned else {},
    )


def _fleets(
    description: Mapping[str, Any], config: Mapping[str, Any] | None, status: str
) -> tuple[tuple[Fleet, ...], bool]:
    """The instances that run, and whether a variant is serverless."""
    variants = (config or {}).get("ProductionVariants") or ()
    shadows = (config or {}).get("ShadowProductionVariants") or ()
    current = {
        item["VariantName"]: item.get("CurrentInstanceCount")
        for member in ("ProductionVariants", "ShadowProductionVariants")
        for item in description.get(member) or ()
    }
    # A variant has one instance type, or pools of several.
    fleets = [
        Fleet(pool["InstanceType"], pool["CurrentInstanceCount"])
        for variant in description.get("ProductionVariants") or ()
        for pool in variant.get("InstancePools") or ()
        if pool.get("CurrentInstanceCount")
    ]
    for variant in (*variants, *shadows):
        count = current.get(variant["VariantName"])
        if count is None:
            # A failed endpoint has no instances; one that is being created has those of its configuration.
            count = 0 if status in ("Failed", "OutOfService") else variant.get("InitialInstanceCount", 1)
        if variant.get("InstanceType") and count:
            fleets.append(Fleet(variant["InstanceType"], count))
    return tuple(fleets), any("ServerlessConfig" in variant for variant in variants)


def _last_invocations(region: Region, listing: Listing) -> dict[str, float | None] | None:
    """The last invocation of each endpoint, None for none in the window; None if the metrics cannot be read."""
    variants = [
        Variant(name, variant["VariantName"])
        for name, description in listing.descriptions.items()
        if (config := listing.live_configs.get(description.get("EndpointConfigName", ""))) is not None
        for variant in config["ProductionVariants"]
    ]
    if not variants:
        return {}
    start = region.now - region.idle_window
    found = region.read(
        "idle times of endpoints",
        "cloudwatch",
        lambda: region.aws.last_invocations(variants, start, region.now),
    )
    if found is None:
        return None
    last: dict[str, float | None] = {}
    for variant, time in found.items():
        times = [item for item in (last.get(variant.endpoint), time) if item is not None]
        last[variant.endpoint] = max(times, default=None)
    return last


def _idle(
    region: Region, name: str, created: float, last: Mapping[str, float | None] | None
) -> tuple[float | None, bool]:
    """For how long an endpoint has certainly not been invoked, and whether it never was in the time examined."""
    if last is None or name not in last:
        return None, False
    time = last[name]
    if time is None:
        return max(0.0, min(region.now - created, region.idle_window)), True
    return max(0.0, region.now - time), False
