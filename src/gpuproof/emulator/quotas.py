"""Quotas of SageMaker's instances: what they are called, how much is used, and what AWS says when it is not enough."""

from __future__ import annotations

import difflib
import hashlib
import threading
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from gpuproof.emulator.arns import ENDPOINT, PROCESSING, TRAINING
from gpuproof.emulator.protocol import AwsError
from gpuproof.emulator.store import Resource, Store

ENOUGH = 500.0
"""What every quota is until it is set: nobody's emulator should have to ask for an increase first."""

_USES = {
    ("training", "on-demand"): "training job usage",
    ("training", "spot"): "spot training job usage",
    ("processing", "on-demand"): "processing job usage",
    ("endpoint", "on-demand"): "endpoint usage",
}
_MOST_INSTANCES = "ResourceLimitExceeded"


class Quota(NamedTuple):
    """One quota, by the name and code that Service Quotas knows it by."""

    name: str
    code: str


class UnknownQuota(ValueError):
    """No quota has that code or name; the message names those that are most like it."""


class Quotas:
    """Every quota's value.

    Args:
        store: whose jobs count as used.
        values: set before; by quota code or name.
    """

    def __init__(self, store: Store, values: dict[str, float]) -> None:
        self._store = store
        self._values: dict[str, float] = {}
        self._lock = threading.Lock()
        self.set(values)

    def limit(self, region: str, quota: Quota) -> float:
        """How many instances there may be."""
        with self._lock:
            for key in (f"{region}/{quota.code}", quota.code, quota.name):
                if key in self._values:
                    return self._values[key]
        return ENOUGH

    def set(self, values: dict[str, float]) -> None:
        """Change quotas; keys are codes (with `region/` before them, for one region alone) or names.

        Raises:
            UnknownQuota: there is none of that code or name, so that it would change nothing.
        """
        refuse_unknown(values)
        with self._lock:
            self._values.update(values)

    def used(self, region: str, use: str, instance_type: str, market: str) -> int:
        """How many instances there are now."""
        return sum(
            count
            for resource in self._store.all(region=region)
            for seen_use, seen_type, seen_market, count in _instances(resource)
            if (seen_use, seen_type, seen_market) == (use, instance_type, market)
        )


def quota_for(instance_type: str, use: str, market: str = "on-demand") -> Quota:
    """The quota that stands before an instance."""
    name = f"{instance_type} for {_USES[use, market]}"
    # Codes that no source tells are made up here, the same each time.
    made_up = f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}"
    return Quota(name, _known_codes("sagemaker").get(name, made_up))


@cache
def known_quotas(service: str) -> tuple[Quota, ...]:
    """The quotas of a service: SageMaker's of every type that an API accepts, EC2's of the catalogue."""
    from gpuproof.catalogue.sagemaker_api_types import accepted_types  # a file, read where quotas are listed

    if service == "ec2":
        return tuple(sorted(Quota(name, code) for name, code in _known_codes("ec2").items()))
    if service != "sagemaker":
        return ()
    found = {
        quota_for(kind, use, market)
        for use, market in _USES
        for kind in accepted_types().get(use, ())  # pyright: ignore[reportArgumentType, reportCallIssue]
    }
    return tuple(sorted(found))


def refuse_unknown(keys: Iterable[str]) -> None:
    """Refuse a quota that there is none of: setting it would change nothing.

    Raises:
        UnknownQuota: a key is neither a name nor a code, with or without a region before it.
    """
    known = {text for service in ("sagemaker", "ec2") for quota in known_quotas(service) for text in quota}
    for key in keys:
        if key in known or key.rpartition("/")[2] in known:
            continue
        near = difflib.get_close_matches(key, known, n=1)
        meant = f"; did you mean '{near[0]}'?" if near else ""
        raise UnknownQuota(f"there is no quota '{key}'{meant}")


def refusal(quota: Quota, limit: float, used: int, count: int) -> AwsError:
    """What AWS says when a quota is not enough."""
    return AwsError(
        _MOST_INSTANCES,
        f"The account-level service limit '{quota.name}' is {limit:g} Instances, with current utilization of {used}"
        f" Instances and a request delta of {count} Instances. Please use AWS Service Quotas to request an increase for"
        " this quota. If AWS Service Quotas is not available, contact AWS support to request an increase for this quota.",
    )


def _instances(resource: Resource) -> list[tuple[str, str, str, int]]:
    document = resource.document
    if resource.kind == TRAINING and document["TrainingJobStatus"] in ("InProgress", "Stopping"):
        market = "spot" if document.get("EnableManagedSpotTraining") else "on-demand"
        config = document["ResourceConfig"]
        groups = config.get("InstanceGroups") or [config]
        return [("training", group["InstanceType"], market, group["InstanceCount"]) for group in groups]
    if resource.kind == PROCESSING and document["ProcessingJobStatus"] in ("InProgress", "Stopping"):
        cluster = document["ProcessingResources"]["ClusterConfig"]
        return [("processing", cluster["InstanceType"], "on-demand", cluster["InstanceCount"])]
    if resource.kind == ENDPOINT:
        return [("endpoint", kind, "on-demand", count) for kind, count in resource.extra.get("instances", ())]
    return []


@cache
def _known_codes(service: str) -> dict[str, str]:
    from gpuproof.catalogue.tables import Tables  # files, read where quotas matter

    return {row.name: row.code for row in Tables().quotas if row.code and row.service == service}
