"""Endpoints with what they cost and how long they have been idle, and the models and configurations that none uses."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import OWN_PREFIX, Action, Fleet, HourlyCost, Kind, Resource, is_own
from gpuproof.backends.aws import AwsRefused, AwsUnreachable
from gpuproof.backends.aws.services.cloudwatch_metrics import Variant

_DELETES_ENDPOINT = "sagemaker:deleteEndpoint"
"""End of the ARN of a schedule's target that deletes an endpoint.

Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
"""

_BUSY = ("Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting")
"""Statuses in which SageMaker rejects DeleteEndpoint: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DeleteEndpoint.html"""


@dataclass(frozen=True)
class _Listing:
    """What the requests of one region returned; None where one failed."""

    endpoints: Sequence[Mapping[str, Any]]
    configs: Sequence[Mapping[str, Any]] | None
    models: Sequence[Mapping[str, Any]] | None
    descriptions: Mapping[str, Mapping[str, Any]]
    live_configs: Mapping[str, Mapping[str, Any]]
    schedules: Mapping[str, str]


def collect(region: Region) -> list[Resource]:
    """All endpoints; unused configurations and models; schedules of GPUproof whose endpoint does not exist."""
    aws = region.aws
    endpoints = region.read("endpoints", "sagemaker", lambda: list(aws.endpoints()))
    if endpoints is None:
        # Without them, nothing can be called unused.
        return []
    configs = region.read("endpoint configurations", "sagemaker", lambda: list(aws.endpoint_configs()))
    models = region.read("models", "sagemaker", lambda: list(aws.models()))
    schedules = _schedules(region)
    descriptions = _descriptions(region, [one["EndpointName"] for one in endpoints])
    names = sorted(
        {one["EndpointConfigName"] for one in descriptions.values() if one.get("EndpointConfigName")}
    )
    found = region.read_each("prices of endpoints", "sagemaker", aws.describe_endpoint_config, names)
    live = {name: config for name, config in zip(names, found, strict=True) if config is not None}
    listing = _Listing(endpoints, configs, models, descriptions, live, schedules)
    idle = _last_invocations(region, listing)
    all_known = len(descriptions) == len(endpoints) and len(live) == len(names)
    return [
        *(_endpoint(region, one, listing, idle) for one in endpoints),
        *(_unused(region, listing) if all_known else ()),
        *_lost_schedules(region, listing),
    ]


def _descriptions(region: Region, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Configuration and instance counts by name: from a search, and one by one for those that it lacks."""
    if not names:
        return {}
    found: dict[str, Mapping[str, Any]] = {}
    try:
        found = {name: one for name, one in region.aws.search_endpoints().items() if name in set(names)}
    except (AwsRefused, AwsUnreachable):
        found = {}  # the search only saves requests
    # While an endpoint changes, the search may lag behind.
    missing = [name for name in names if name not in found]
    described = region.read_each("prices of endpoints", "sagemaker", region.aws.describe_endpoint, missing)
    return found | {name: one for name, one in zip(missing, described, strict=True) if one is not None}


def _endpoint(
    region: Region,
    summary: Mapping[str, Any],
    listing: _Listing,
    idle: Mapping[str, float | None] | None,
) -> Resource:
    name, arn, status = summary["EndpointName"], summary["EndpointArn"], summary["EndpointStatus"]
    description = listing.descriptions.get(name, {})
    config = listing.live_configs.get(description.get("EndpointConfigName", ""))
    fleets, serverless = _fleets(description, config, status)
    pooled = any("InstancePools" in one for one in (config or {}).get("ProductionVariants", ()))
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
        details=_own_parts(region, name, listing) if owned else {},
    )


def _fleets(
    description: Mapping[str, Any], config: Mapping[str, Any] | None, status: str
) -> tuple[tuple[Fleet, ...], bool]:
    """The instances that run, and whether a variant is serverless."""
    variants = (config or {}).get("ProductionVariants") or ()
    shadows = (config or {}).get("ShadowProductionVariants") or ()
    current = {
        one["VariantName"]: one.get("CurrentInstanceCount")
        for member in ("ProductionVariants", "ShadowProductionVariants")
        for one in description.get(member) or ()
    }
    # A variant has one instance type, or pools of several.
    fleets = [
        Fleet(pool["InstanceType"], pool["CurrentInstanceCount"])
        for one in description.get("ProductionVariants") or ()
        for pool in one.get("InstancePools") or ()
        if pool.get("CurrentInstanceCount")
    ]
    for variant in (*variants, *shadows):
        count = current.get(variant["VariantName"])
        if count is None:
            # A failed endpoint has no instances; one that is being created has those of its configuration.
            count = 0 if status in ("Failed", "OutOfService") else variant.get("InitialInstanceCount", 1)
        if variant.get("InstanceType") and count:
            fleets.append(Fleet(variant["InstanceType"], count))
    return tuple(fleets), any("ServerlessConfig" in one for one in variants)


def _last_invocations(region: Region, listing: _Listing) -> dict[str, float | None] | None:
    """The last invocation of each endpoint, None for none in the window; None if the metrics cannot be read."""
    variants = [
        Variant(name, variant["VariantName"])
        for name, one in listing.descriptions.items()
        if (config := listing.live_configs.get(one.get("EndpointConfigName", ""))) is not None
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
        times = [one for one in (last.get(variant.endpoint), time) if one is not None]
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


def _own_parts(region: Region, name: str, listing: _Listing) -> dict[str, str]:
    """The configuration, models and schedules of an endpoint that GPUproof has tagged and no other endpoint uses."""
    config_name = listing.descriptions.get(name, {}).get("EndpointConfigName", "")
    config = listing.live_configs.get(config_name)
    schedules = "\n".join(one for one, endpoint in listing.schedules.items() if endpoint == name)
    parts = {"schedules": schedules} if schedules else {}
    if config is None or len(listing.descriptions) < len(listing.endpoints):
        return parts
    others = [one for other, one in listing.descriptions.items() if other != name]
    other_configs = {one.get("EndpointConfigName") for one in others}
    if config_name in other_configs or not is_own(region.tags(config["EndpointConfigArn"])):
        return parts
    used = {model for one in other_configs for model in _models_of(listing.live_configs.get(one or "", {}))}
    arns = {one["ModelName"]: one["ModelArn"] for one in listing.models or ()}
    own = [
        model
        for model in _models_of(config)
        if model not in used and model in arns and is_own(region.tags(arns[model]))
    ]
    return parts | {"configs": config_name} | ({"models": "\n".join(own)} if own else {})


def _unused(region: Region, listing: _Listing) -> Iterable[Resource]:
    used_models = {model for config in listing.live_configs.values() for model in _models_of(config)}
    for one in listing.configs or ():
        if one["EndpointConfigName"] not in listing.live_configs:
            yield _free(
                region, Kind.ENDPOINT_CONFIG, one["EndpointConfigName"], one["EndpointConfigArn"], one
            )
    for one in listing.models or ():
        if one["ModelName"] not in used_models:
            yield _free(region, Kind.MODEL, one["ModelName"], one["ModelArn"], one)


def _free(region: Region, kind: Kind, name: str, arn: str, summary: Mapping[str, Any]) -> Resource:
    tags = region.tags(arn)
    created = summary["CreationTime"].timestamp()
    return Resource(
        kind,
        region.name,
        name,
        arn,
        "unused",
        cost=HourlyCost(0.0),
        has_gpu=False,
        created=created,
        tags=tags,
        owned=is_own(tags),
        note="no endpoint uses it",
    )


def _models_of(config: Mapping[str, Any]) -> list[str]:
    variants = [*(config.get("ProductionVariants") or ()), *(config.get("ShadowProductionVariants") or ())]
    return list(dict.fromkeys(one["ModelName"] for one in variants if one.get("ModelName")))


def _schedules(region: Region) -> dict[str, str]:
    """The endpoints that GPUproof's schedules delete, by `GROUP/NAME`."""
    listed = region.read("schedules", "scheduler", lambda: list(region.aws.schedules(OWN_PREFIX)))
    wanted = [one for one in listed or () if one.get("Target", {}).get("Arn", "").endswith(_DELETES_ENDPOINT)]
    found = region.read_each(
        "schedules", "scheduler", lambda one: region.aws.schedule(one["Name"], one["GroupName"]), wanted
    )
    return {
        f"{one['GroupName']}/{one['Name']}": endpoint
        for one in found
        if one is not None and (endpoint := _endpoint_in(one)) is not None
    }


def _endpoint_in(schedule: Mapping[str, Any]) -> str | None:
    try:
        return json.loads(schedule["Target"].get("Input") or "{}").get("EndpointName")
    except (ValueError, AttributeError):
        return None


def _lost_schedules(region: Region, listing: _Listing) -> Iterable[Resource]:
    existing = {one["EndpointName"] for one in listing.endpoints}
    for key, endpoint in listing.schedules.items():
        if endpoint not in existing:
            group, _, name = key.rpartition("/")
            yield Resource(
                Kind.SCHEDULE,
                region.name,
                name,
                state="unused",
                cost=HourlyCost(0.0),
                has_gpu=False,
                owned=True,
                note=f"its endpoint {endpoint} does not exist",
                details={"group": group},
            )
