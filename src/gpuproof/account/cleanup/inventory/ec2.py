"""Instances of EC2 with GPUs, volumes that no instance uses, and GPUproof's security groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof.account.cleanup.inventory.region import Region
from gpuproof.account.cleanup.resource import RUN_TAG, Action, Fleet, HourlyCost, Kind, Resource, is_own
from gpuproof.backends.aws.services.ec2 import tag_dict
from gpuproof.catalogue.storage_prices import Volume

_STATES = ("pending", "running", "stopping", "stopped")
_SECURITY_GROUP = ("gpuproof:kind", "security-group")
"""The tag of the security group that GPUproof creates in a VPC."""

_GROUP = "aws:autoscaling:groupName"


def collect_instances(region: Region) -> list[Resource]:
    """Instances that run, and stopped ones, whose volumes are billed; security groups of GPUproof that none has."""
    found = region.read("EC2 instances", "ec2", lambda: list(region.aws.all_instances(_STATES)))
    if found is None:
        return []
    groups = region.read(
        "security groups", "ec2", lambda: list(region.aws.tagged_security_groups(*_SECURITY_GROUP))
    )
    used = {group["GroupId"] for instance in found for group in instance.get("SecurityGroups", ())}
    return [
        *(_instance(region, instance) for instance in found),
        *(_security_group(region, group) for group in groups or () if group["GroupId"] not in used),
    ]


def collect_volumes(region: Region) -> list[Resource]:
    """Volumes that are attached to no instance."""
    return [_volume(region, volume) for volume in region.volumes() or () if volume["State"] == "available"]


def _instance(region: Region, one: Mapping[str, Any]) -> Resource:
    state, tags = one["State"]["Name"], tag_dict(one.get("Tags", ()))
    fleets = (Fleet(one["InstanceType"], 1),)
    spot = one.get("InstanceLifecycle") == "spot"
    stopped = state in ("stopping", "stopped")
    action, loses, note = _instance_action(region, one, tags, stopped=stopped, spot=spot)
    if stopped:
        cost = _attached_cost(region, one["InstanceId"])
    else:
        cost = region.cost(fleets, market="spot" if spot else "on-demand")
    if spot and not stopped and cost is not None:
        cost = HourlyCost(cost.usd, derived=True)  # the catalogue's spot prices are not those of today
    return Resource(
        Kind.INSTANCE,
        region.name,
        one["InstanceId"],
        "",
        state,
        action,
        fleets,
        cost,
        region.has_gpu(fleets),
        one["LaunchTime"].timestamp(),
        tags=tags,
        owned=is_own(tags),
        loses_data=loses,
        note=note,
    )


def _instance_action(
    region: Region, one: Mapping[str, Any], tags: Mapping[str, str], *, stopped: bool, spot: bool
) -> tuple[Action, bool, str]:
    """What to do with an instance, whether that loses data, and a remark: the least harm that ends its cost."""
    if _GROUP in tags:
        group = f"of the Auto Scaling group {tags[_GROUP]}, which would replace it: change the group"
        return Action.NONE, False, group
    if stopped:
        return Action.TERMINATE, True, f"it is {one['State']['Name']}: only its volumes are billed"
    if RUN_TAG in tags:
        return Action.TERMINATE, False, "of a run: `gpuproof stop` saves its results"
    if spot:
        return Action.TERMINATE, True, "a spot instance"
    known = region.catalogue.instance(one["InstanceType"])
    has_disk = known is None or known.local_disk > 0
    return Action.STOP, has_disk, "its local disks lose their data" if has_disk else ""


def _attached_cost(region: Region, instance: str) -> HourlyCost | None:
    """The price of the volumes of an instance; None if it is unknown, or they cannot be listed."""
    volumes = region.volumes()
    if volumes is None:
        return None
    own = [
        volume
        for volume in volumes
        if any(attached.get("InstanceId") == instance for attached in volume.get("Attachments", ()))
    ]
    return region.storage_cost(map(_priced, own))


def _priced(one: Mapping[str, Any]) -> Volume:
    return Volume(
        one.get("VolumeType", "standard"), one["Size"], one.get("Iops") or 0, one.get("Throughput") or 0
    )


def _security_group(region: Region, one: Mapping[str, Any]) -> Resource:
    return Resource(
        Kind.SECURITY_GROUP,
        region.name,
        one["GroupId"],
        state="unused",
        cost=HourlyCost(0.0),
        has_gpu=False,
        tags=tag_dict(one.get("Tags", ())),
        owned=True,
        note=f"no instance has it; a run in {one.get('VpcId', 'its VPC')} creates it again",
    )


def _volume(region: Region, one: Mapping[str, Any]) -> Resource:
    tags = tag_dict(one.get("Tags", ()))
    return Resource(
        Kind.VOLUME,
        region.name,
        one["VolumeId"],
        "",
        "available",
        Action.DELETE,
        cost=region.storage_cost([_priced(one)]),
        created=one["CreateTime"].timestamp(),
        tags=tags,
        owned=is_own(tags),
        loses_data=True,
        note=f"{one['Size']} GiB {one.get('VolumeType', '')}, attached to no instance",
    )
