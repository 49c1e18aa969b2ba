"""What belongs to an endpoint of GPUproof and goes with it, and what no endpoint uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuproof.account.cleanup.inventory.endpoint_listing import Listing, models_of
from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import (
    ENDPOINT_TAG,
    TRANSFORM_TAG,
    HourlyCost,
    Kind,
    Resource,
    is_own,
)


def own_parts(region: Region, name: str, listing: Listing) -> dict[str, str]:
    """The details of an endpoint of GPUproof: its schedules, scaling, configurations, models, and their files.

    Configurations and models that GPUproof created for it before the last update belong to it, too. What another
    endpoint or a batch transform job uses stays.
    """
    schedules = [schedule for schedule, endpoint in listing.schedules.items() if endpoint == name]
    configs: list[str] = []
    models: list[str] = []
    if listing.is_complete:
        configs = _own_configs(region, name, listing)
        models = _own_models(region, name, listing)
    parts = {
        "schedules": schedules,
        "variants": listing.scaled.get(name, ()),
        "configs": configs,
        "models": models,
        "files": [address for model in models for address in listing.files.get(model, ())],
    }
    return {key: "\n".join(values) for key, values in parts.items() if values}


def unused(region: Region, listing: Listing) -> Iterator[Resource]:
    """Configurations and models that no endpoint uses, but for those to which `gpuproof deploy --rollback` can return."""
    if not listing.is_complete:
        return
    existing = {endpoint["EndpointName"] for endpoint in listing.endpoints}
    for config in listing.configs or ():
        name, arn = config["EndpointConfigName"], config["EndpointConfigArn"]
        if name not in listing.live_configs and _endpoint_of(region, arn) not in existing:
            yield _free(region, Kind.ENDPOINT_CONFIG, name, arn, config)
    if listing.transformed is None:
        return
    in_use = listing.models_in_use()
    for model in listing.models or ():
        name, arn = model["ModelName"], model["ModelArn"]
        if name not in in_use and _endpoint_of(region, arn) not in existing:
            yield _free(region, Kind.MODEL, name, arn, model, listing.files.get(name, ()))


def lost_schedules(region: Region, listing: Listing) -> Iterator[Resource]:
    """Schedules of GPUproof whose endpoint does not exist."""
    existing = {endpoint["EndpointName"] for endpoint in listing.endpoints}
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


def _own_configs(region: Region, endpoint: str, listing: Listing) -> list[str]:
    current = listing.descriptions.get(endpoint, {}).get("EndpointConfigName")
    others = {
        description.get("EndpointConfigName")
        for name, description in listing.descriptions.items()
        if name != endpoint
    }
    return [
        config["EndpointConfigName"]
        for config in listing.configs or ()
        if config["EndpointConfigName"] not in others
        and _belongs(region, config["EndpointConfigArn"], endpoint, config["EndpointConfigName"] == current)
    ]


def _own_models(region: Region, endpoint: str, listing: Listing) -> list[str]:
    if listing.transformed is None:
        return []
    current = listing.descriptions.get(endpoint, {}).get("EndpointConfigName", "")
    used = models_of(listing.live_configs.get(current, {}))
    in_use = listing.models_in_use(without=endpoint)
    return [
        model["ModelName"]
        for model in listing.models or ()
        if model["ModelName"] not in in_use
        and _belongs(region, model["ModelArn"], endpoint, model["ModelName"] in used)
    ]


def _belongs(region: Region, arn: str, endpoint: str, is_used: bool) -> bool:
    """Whether GPUproof created something for an endpoint, or created it and the endpoint uses it."""
    owner = _endpoint_of(region, arn)
    return owner == endpoint or (owner is None and is_used and is_own(region.tags(arn)))


def _endpoint_of(region: Region, arn: str) -> str | None:
    """The endpoint for which GPUproof created something."""
    return (region.tags(arn) or {}).get(ENDPOINT_TAG)


def _free(
    region: Region,
    kind: Kind,
    name: str,
    arn: str,
    summary: Mapping[str, Any],
    files: Sequence[str] = (),
) -> Resource:
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
        note="its transform job has ended" if TRANSFORM_TAG in (tags or {}) else "no endpoint uses it",
        details={"files": "\n".join(files)} if files else {},
    )
