"""The requests about the endpoints of a region, and everything that belongs to them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import BUCKET_TAG, ENDPOINT_TAG, OWN_PREFIX, TRANSFORM_TAG, is_own
from gpuproof.backends.aws import AwsRefused, AwsUnreachable
from gpuproof.backends.sagemaker.endpoints.plan import ENDPOINTS

_DELETES_ENDPOINT = "sagemaker:deleteEndpoint"
"""End of the ARN of a schedule's target that deletes an endpoint.

Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
"""


@dataclass(frozen=True)
class Listing:
    """What the requests of one region returned; None where one failed.

    Args:
        endpoints: summaries of all endpoints.
        configs: summaries of all endpoint configurations.
        models: summaries of all models.
        schedules: the endpoints that GPUproof's schedules delete, by `GROUP/NAME`.
        files: the addresses of the files in S3 of each model of GPUproof.
    """

    endpoints: Sequence[Mapping[str, Any]]
    configs: Sequence[Mapping[str, Any]] | None
    models: Sequence[Mapping[str, Any]] | None
    descriptions: Mapping[str, Mapping[str, Any]]
    live_configs: Mapping[str, Mapping[str, Any]]
    schedules: Mapping[str, str]
    scaled: Mapping[str, Sequence[str]]
    files: Mapping[str, Sequence[str]]
    transformed: frozenset[str] | None

    @property
    def is_complete(self) -> bool:
        """Whether all endpoints and their configurations are known: without them, nothing can be called unused."""
        return len(self.descriptions) == len(self.endpoints) and all(
            description.get("EndpointConfigName", "") in self.live_configs
            for description in self.descriptions.values()
        )

    def models_in_use(self, without: str = "") -> set[str]:
        """The models of all endpoints but one, and of the batch transform jobs that run."""
        configs = {
            description.get("EndpointConfigName", "")
            for name, description in self.descriptions.items()
            if name != without
        }
        live = {model for name in configs for model in models_of(self.live_configs.get(name, {}))}
        return live | (self.transformed or frozenset())


def read_listing(region: Region) -> Listing | None:
    """Everything about endpoints; None if they cannot be listed."""
    aws = region.aws
    endpoints = region.read("endpoints", "sagemaker", lambda: list(aws.endpoints()))
    if endpoints is None:
        return None
    configs = region.read("endpoint configurations", "sagemaker", lambda: list(aws.endpoint_configs()))
    models = region.read("models", "sagemaker", lambda: list(aws.models()))
    descriptions = _descriptions(region, [endpoint["EndpointName"] for endpoint in endpoints])
    names = sorted(
        {
            description["EndpointConfigName"]
            for description in descriptions.values()
            if description.get("EndpointConfigName")
        }
    )
    found = region.read_each("prices of endpoints", "sagemaker", aws.describe_endpoint_config, names)
    live = {name: config for name, config in zip(names, found, strict=True) if config is not None}
    return Listing(
        endpoints,
        configs,
        models,
        descriptions,
        live,
        _schedules(region),
        _scaled(region, endpoints),
        _files(region, models or ()),
        _transformed(region) if models else frozenset(),
    )


def models_of(config: Mapping[str, Any]) -> list[str]:
    """The models of an endpoint configuration."""
    variants = [*(config.get("ProductionVariants") or ()), *(config.get("ShadowProductionVariants") or ())]
    return list(dict.fromkeys(variant["ModelName"] for variant in variants if variant.get("ModelName")))


def _descriptions(region: Region, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Configuration and instance counts by name: from a search, and one by one for those that it lacks."""
    if not names:
        return {}
    found: dict[str, Mapping[str, Any]] = {}
    try:
        found = {
            name: endpoint for name, endpoint in region.aws.search_endpoints().items() if name in set(names)
        }
    except (AwsRefused, AwsUnreachable):
        found = {}  # the search only saves requests
    # While an endpoint changes, the search may lag behind.
    missing = [name for name in names if name not in found]
    described = region.read_each("prices of endpoints", "sagemaker", region.aws.describe_endpoint, missing)
    return found | {name: item for name, item in zip(missing, described, strict=True) if item is not None}


def _schedules(region: Region) -> dict[str, str]:
    """The endpoints that GPUproof's schedules delete, by `GROUP/NAME`."""
    listed = region.read("schedules", "scheduler", lambda: list(region.aws.schedules(OWN_PREFIX)))
    wanted = [
        schedule
        for schedule in listed or ()
        if schedule.get("Target", {}).get("Arn", "").endswith(_DELETES_ENDPOINT)
    ]
    found = region.read_each(
        "schedules",
        "scheduler",
        lambda schedule: region.aws.schedule(schedule["Name"], schedule["GroupName"]),
        wanted,
    )
    return {
        f"{match['GroupName']}/{match['Name']}": endpoint
        for match in found
        if match is not None and (endpoint := _endpoint_in(match)) is not None
    }


def _endpoint_in(schedule: Mapping[str, Any]) -> str | None:
    try:
        return json.loads(schedule["Target"].get("Input") or "{}").get("EndpointName")
    except (ValueError, AttributeError):
        return None


def _scaled(region: Region, endpoints: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Only those of GPUproof's endpoints: they are deregistered with the endpoint."""
    if not any(is_own(region.tags(endpoint["EndpointArn"])) for endpoint in endpoints):
        return {}
    targets = region.read(
        "scaling targets of endpoints",
        "application-autoscaling",
        lambda: list(region.aws.scaled_variants()),
    )
    found: dict[str, list[str]] = {}
    for endpoint, variant in targets or ():
        found.setdefault(endpoint, []).append(variant)
    return found


def _files(region: Region, models: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """The files that GPUproof uploaded for models, in the buckets that their tags name."""
    buckets: dict[str, str] = {}
    for model in models:
        tags = region.tags(model["ModelArn"]) or {}
        if BUCKET_TAG in tags and (ENDPOINT_TAG in tags or TRANSFORM_TAG in tags):
            buckets[model["ModelName"]] = tags[BUCKET_TAG]
    found: dict[str, list[str]] = {}
    for bucket in sorted(set(buckets.values())):
        listed = region.read(
            "files of models", "s3", lambda bucket=bucket: list(region.aws.list_objects(bucket, ENDPOINTS))
        )
        for item in listed or ():
            name = item.key.removeprefix(ENDPOINTS).partition("/")[0]
            if buckets.get(name) == bucket:
                found.setdefault(name, []).append(f"s3://{bucket}/{item.key}")
    return found


def _transformed(region: Region) -> frozenset[str] | None:
    jobs = region.transform_jobs()
    if jobs is None or any(more is None for _, more in jobs):
        return None
    return frozenset(more["ModelName"] for _, more in jobs if more is not None)
