"""Quotas of SageMaker's instances: names and codes, limits, usage, and AWS's error when a limit is exceeded."""

from __future__ import annotations

import difflib
import hashlib
import threading
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.store import ENDPOINT, NOTEBOOK, PROCESSING, TRAINING, TRANSFORM, Resource, Store

DEFAULT_LIMIT = 500.0
"""Every quota's limit until it is set, high enough that no increase is needed."""

_USES = {
    ("training", "on-demand"): "training job usage",
    ("training", "spot"): "spot training job usage",
    ("processing", "on-demand"): "processing job usage",
    ("endpoint", "on-demand"): "endpoint usage",
    ("transform", "on-demand"): "transform job usage",
    ("notebook", "on-demand"): "notebook instance usage",
}


class Quota(NamedTuple):
    """One quota, with its name and code in Service Quotas."""

    name: str
    code: str


class UnknownQuota(ValueError):
    """No quota has that code or name; the message contains the closest match."""


class Quotas:
    """The limit of every quota.

    Args:
        store: the jobs and endpoints that count as usage.
        values: initial limits, by quota code or name.
    """

    def __init__(self, store: Store, values: dict[str, float]) -> None:
        self._store = store
        self._values: dict[str, float] = {}
        self._lock = threading.Lock()
        self.set(values)
        self._initial = dict(self._values)

    def limit(self, region: str, quota: Quota) -> float:
        """The maximum number of instances."""
        with self._lock:
            for key in (f"{region}/{quota.code}", quota.code, quota.name):
                if key in self._values:
                    return self._values[key]
        return DEFAULT_LIMIT

    def set(self, values: dict[str, float]) -> None:
        """Change limits; keys are names, or codes with an optional prefix `region/`.

        Raises:
            UnknownQuota: no quota has that code or name.
        """
        reject_unknown_quotas(values)
        with self._lock:
            self._values.update(values)

    def reset(self) -> None:
        """Restore the limits with which the emulator was started."""
        with self._lock:
            self._values = dict(self._initial)

    def used(self, region: str, use: str, instance_type: str, market: str) -> int:
        """The current number of instances."""
        return sum(
            count
            for resource in self._store.all(region=region)
            for item_use, item_type, item_market, count in _instances(resource)
            if (item_use, item_type, item_market) == (use, instance_type, market)
        )


def quota_for(instance_type: str, use: str, market: str = "on-demand") -> Quota:
    """The quota that limits instances of a type."""
    name = f"{instance_type} for {_USES[use, market]}"
    # Codes that the catalogue lacks are derived from the name.
    derived = f"L-{hashlib.sha256(name.encode()).hexdigest()[:8].upper()}"
    return Quota(name, _known_codes("sagemaker").get(name, derived))


@cache
def known_quotas(service: str) -> tuple[Quota, ...]:
    """The quotas of a service: SageMaker's for every type that an API accepts, EC2's from the catalogue."""
    from gpuproof.catalogue.sagemaker_api_types import accepted_types  # reads a file, so only on first use

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


def reject_unknown_quotas(keys: Iterable[str]) -> None:
    """Reject keys that match no quota: setting them would have no effect.

    Raises:
        UnknownQuota: a key is neither a name nor a code with an optional prefix `region/`.
    """
    known = {text for service in ("sagemaker", "ec2") for quota in known_quotas(service) for text in quota}
    for key in keys:
        if key in known or key.rpartition("/")[2] in known:
            continue
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise UnknownQuota(f"unknown quota '{key}'{hint}")


def quota_error(quota: Quota, limit: float, used: int, count: int) -> AwsError:
    """AWS's error when a request exceeds a quota."""
    return AwsError(
        "ResourceLimitExceeded",
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
    if resource.kind == NOTEBOOK and document["NotebookInstanceStatus"] in (
        "Pending",
        "InService",
        "Stopping",
    ):
        return [("notebook", document["InstanceType"], "on-demand", 1)]
    if resource.kind == TRANSFORM and document["TransformJobStatus"] in ("InProgress", "Stopping"):
        resources = document["TransformResources"]
        return [("transform", resources["InstanceType"], "on-demand", resources["InstanceCount"])]
    if resource.kind == ENDPOINT:
        return [("endpoint", kind, "on-demand", count) for kind, count in resource.extra.get("instances", ())]
    return []


@cache
def _known_codes(service: str) -> dict[str, str]:
    from gpuproof.catalogue.tables import Tables  # reads files, so only on first use

    return {row.name: row.code for row in Tables().quotas if row.code and row.service == service}
