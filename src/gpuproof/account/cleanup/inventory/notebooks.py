"""Notebook instances, Studio apps, and notebook lifecycle configurations of GPUproof that no notebook instance uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import OWN_PREFIX, Action, Fleet, HourlyCost, Kind, Resource, is_own
from gpuproof.backends.sagemaker.notebooks.listing import DEFAULT_VOLUME_GB
from gpuproof.catalogue.storage_prices import SAGEMAKER_STORAGE, Volume

_BILLED = ("InService", "Pending", "Updating", "Stopping")
_GONE = ("Deleting",)


def collect_notebooks(region: Region) -> list[Resource]:
    """All notebook instances, and the lifecycle configurations."""
    aws = region.aws
    notebooks = region.read("notebook instances", "sagemaker", lambda: list(aws.list_notebooks()))
    if notebooks is None:
        return []
    configs = region.read(
        "notebook lifecycle configurations",
        "sagemaker",
        lambda: list(aws.lifecycle_configs(OWN_PREFIX)),
    )
    used = {notebook.get("NotebookInstanceLifecycleConfigName") for notebook in notebooks}
    sizes = _disk_sizes(region, notebooks)
    return [
        *(
            _notebook(region, notebook, sizes.get(notebook["NotebookInstanceName"]))
            for notebook in notebooks
            if notebook["NotebookInstanceStatus"] not in _GONE
        ),
        *(
            _lifecycle(region, config)
            for config in configs or ()
            if config["NotebookInstanceLifecycleConfigName"] not in used
            and config["NotebookInstanceLifecycleConfigName"].startswith(OWN_PREFIX)
        ),
    ]


def collect_apps(region: Region) -> list[Resource]:
    """The apps of Studio that have an instance of their own; those on Studio's own instance cost nothing."""
    apps = region.read("Studio apps", "sagemaker", lambda: list(region.aws.studio_apps())) or []
    living = [
        app
        for app in apps
        if app["Status"] in ("InService", "Pending")
        and app.get("ResourceSpec", {}).get("InstanceType", "system") != "system"
    ]
    requests = [_app_request(app) for app in living]
    described = region.read_each("idle times of Studio apps", "sagemaker", region.aws.studio_app, requests)
    return [
        _app(region, notebook, request, more or {})
        for notebook, request, more in zip(living, requests, described, strict=True)
    ]


def _disk_sizes(region: Region, notebooks: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The size in GB of the disk of each notebook instance that pays for nothing else."""
    names = [
        notebook["NotebookInstanceName"]
        for notebook in notebooks
        if notebook["NotebookInstanceStatus"] not in (*_BILLED, *_GONE)
    ]
    found = region.read_each(
        "prices of stopped notebook instances", "sagemaker", region.aws.describe_notebook, names
    )
    return {
        name: more.get("VolumeSizeInGB", DEFAULT_VOLUME_GB)
        for name, more in zip(names, found, strict=True)
        if more is not None
    }


def _notebook(region: Region, one: Mapping[str, Any], disk_gb: int | None) -> Resource:
    arn, status = one["NotebookInstanceArn"], one["NotebookInstanceStatus"]
    fleets = (Fleet(one["InstanceType"], 1),) if one.get("InstanceType") else ()
    billed = status in _BILLED
    tags = region.tags(arn)
    action = Action.STOP if status == "InService" else Action.DELETE
    if status not in ("InService", "Stopped", "Failed"):
        action = Action.NONE
    if billed:
        cost, note = region.cost(fleets, "notebook"), ""
    elif disk_gb is None:
        cost, note = None, "its disk is billed; its size is unknown"
    else:
        cost = region.storage_cost([Volume(SAGEMAKER_STORAGE, disk_gb, use="notebook")])
        note = f"only its disk of {disk_gb} GB is billed"
    return Resource(
        Kind.NOTEBOOK,
        region.name,
        one["NotebookInstanceName"],
        arn,
        status,
        action,
        fleets,
        cost,
        region.has_gpu(fleets),
        one["CreationTime"].timestamp(),
        tags=tags,
        owned=is_own(tags),
        loses_data=action is Action.DELETE,
        note=f"it is {status}" if action is Action.NONE else note,
    )


def _lifecycle(region: Region, one: Mapping[str, Any]) -> Resource:
    return Resource(
        Kind.LIFECYCLE_CONFIG,
        region.name,
        one["NotebookInstanceLifecycleConfigName"],
        one["NotebookInstanceLifecycleConfigArn"],
        "unused",
        cost=HourlyCost(0.0),
        has_gpu=False,
        created=one["CreationTime"].timestamp(),
        owned=True,
        note="no notebook instance uses it",
    )


def _app_request(one: Mapping[str, Any]) -> dict[str, str]:
    names = ("DomainId", "AppType", "AppName", "UserProfileName", "SpaceName")
    return {name: one[name] for name in names if one.get(name)}


def _app(
    region: Region, one: Mapping[str, Any], request: Mapping[str, str], more: Mapping[str, Any]
) -> Resource:
    fleets = (Fleet(one["ResourceSpec"]["InstanceType"], 1),)
    arn = more.get("AppArn", "")
    tags = region.tags(arn) if arn else None
    used = more.get("LastUserActivityTimestamp")
    place = one.get("SpaceName") or one.get("UserProfileName") or ""
    return Resource(
        Kind.STUDIO_APP,
        region.name,
        "/".join((one["DomainId"], place, one["AppType"], one["AppName"])),
        arn,
        one["Status"],
        Action.DELETE,
        fleets,
        region.cost(fleets, "studio"),
        region.has_gpu(fleets),
        one["CreationTime"].timestamp(),
        None if used is None else max(0.0, region.now - used.timestamp()),
        tags=tags,
        owned=is_own(tags),
        note="what is not saved in its space is lost",
        details=dict(request),
    )
