"""Builds the RunInstances request: instances that terminate when they shut down, with encrypted volumes and IMDSv2.

All hosts of a job are in one request, for which EC2 launches all of them or none: `MinCount` is `MaxCount`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from gpuproof.backends.api_call import ApiCall
from gpuproof.backends.aws.services.ec2 import RUN_TAG
from gpuproof.backends.ec2.launch_input import LaunchInput
from gpuproof.backends.ec2.target import EC2Target, Zone
from gpuproof.errors import InvalidJob
from gpuproof.version import __version__

MAX_TAGS = 50
MAX_KEY = 128
MAX_VALUE = 256
"""Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions"""

_IN_METADATA = re.compile(r"[A-Za-z0-9+\-=.,_:@]+")
"""Keys of tags that the instance metadata service can return; EC2 rejects other keys on an instance whose tags it returns.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/work-with-tags-in-IMDS.html
"""
_RESERVED = (".", "..", "_index")

NEW_GROUP = "ID of the new security group"
"""Stands in a plan for the id of a security group that the submission creates."""


def launch_call(plan: LaunchInput, target: EC2Target, zone: Zone, user_data: str) -> ApiCall:
    """The call that launches the instances; see `run_instances_request`."""
    where = f" in {zone.name}" if zone.name else ""
    spot, count = "spot " if plan.spot else "", plan.job.instance_count
    what = f"the {spot}instance {target.name}" if count == 1 else f"{count} {spot}instances {target.name}"
    request = run_instances_request(plan, target, zone, user_data)
    region = "" if target.region == plan.region else target.region
    return ApiCall("ec2", "run_instances", request, f"launch {what}{where}", region=region)


def run_instances_request(
    plan: LaunchInput, target: EC2Target, zone: Zone, user_data: str, attempt: int = 1
) -> dict[str, Any]:
    """The request of RunInstances.

    Its `ClientToken` is a digest of the rest: EC2 answers a repeated request with the same instances, and a changed
    one has another token.

    Args:
        user_data: the program that each instance runs when it boots; boto3 encodes it.
        attempt: 1, or more for other instances with an equal request.

    Raises:
        InvalidJob: the job's tags exceed EC2's limits.
    """
    request: dict[str, Any] = {
        "ImageId": target.ami.id,
        "InstanceType": target.name,
        "MinCount": plan.job.instance_count,
        "MaxCount": plan.job.instance_count,
        # Whatever shuts the instance down ends it, and with it its costs.
        "InstanceInitiatedShutdownBehavior": "terminate",
        "IamInstanceProfile": plan.profile.specification,
        "MetadataOptions": {
            "HttpEndpoint": "enabled",
            "HttpTokens": "required",
            # 2: a container on the instance reaches the metadata service too.
            "HttpPutResponseHopLimit": 2,
            # The host reads the request to stop from a tag.
            "InstanceMetadataTags": "enabled",
        },
        "BlockDeviceMappings": [_root_volume(target), *_other_volumes(target)],
        "SecurityGroupIds": list(plan.security_groups(target.region) or (NEW_GROUP,)),
        "TagSpecifications": _tag_specifications(plan, target),
        "UserData": user_data,
    }
    if zone.subnet:
        request["SubnetId"] = zone.subnet
    elif zone.name:
        request["Placement"] = {"AvailabilityZone": zone.name}
    if plan.spot:
        request["InstanceMarketOptions"] = _spot_options(plan)
    return {**request, "ClientToken": client_token(request, plan.run_id, attempt)}


def client_token(request: dict[str, Any], run_id: str, attempt: int) -> str:
    """The idempotency token of a request: 64 characters, the most that EC2 allows.

    Source: https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
    """
    content = json.dumps([run_id, attempt, request], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _root_volume(target: EC2Target) -> dict[str, Any]:
    volume: dict[str, Any] = {"VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True}
    if size := max(target.volume_gb, target.ami.snapshot_gb):
        volume["VolumeSize"] = size
    return {"DeviceName": target.ami.root_device, "Ebs": volume}


def _other_volumes(target: EC2Target) -> list[dict[str, Any]]:
    """Further volumes of the image, which might say that they outlive the instance."""
    return [{"DeviceName": name, "Ebs": {"DeleteOnTermination": True}} for name in target.ami.other_devices]


def _spot_options(plan: LaunchInput) -> dict[str, Any]:
    """Without a maximum price, EC2 never charges more than the on-demand price."""
    options: dict[str, Any] = {"SpotInstanceType": "one-time", "InstanceInterruptionBehavior": "terminate"}
    if (most := plan.job.resources.max_price) is not None:
        options["MaxPrice"] = f"{most.usd:f}"
    return {"MarketType": "spot", "SpotOptions": options}


def _tag_specifications(plan: LaunchInput, target: EC2Target) -> list[dict[str, Any]]:
    """The tags of everything that the launch creates, since a policy may demand them on each.

    The instance has none of the user's tags whose keys the metadata service cannot return.

    Raises:
        InvalidJob: the user's tags exceed EC2's limits.
    """
    tags = _tags(plan, target)
    on_instance = {key: value for key, value in tags.items() if _is_in_metadata(key)}
    others = ("volume", "network-interface", *(("spot-instances-request",) if plan.spot else ()))
    return [
        {"ResourceType": "instance", "Tags": _listed(on_instance)},
        *({"ResourceType": kind, "Tags": _listed(tags)} for kind in others),
    ]


def _tags(plan: LaunchInput, target: EC2Target) -> dict[str, str]:
    job = plan.job
    found = {
        "Name": plan.run_id,
        **job.tags,
        RUN_TAG: plan.run_id,
        "gpuproof:job": job.name,
        "gpuproof:kind": job.kind,
        "gpuproof:version": __version__,
        "gpuproof:bucket": plan.bucket_name,
        "gpuproof:instance": target.name,
    }
    _check_limits(found)
    return found


def _check_limits(tags: Mapping[str, str]) -> None:
    problems: list[str] = []
    # One tag is left for the request to stop.
    if len(tags) >= MAX_TAGS:
        own = sum(key.startswith("gpuproof:") for key in tags) + 1
        problems.append(f"the job has too many tags: EC2 allows {MAX_TAGS}, of which GPUproof needs {own}")
    for key, value in tags.items():
        if len(key) > MAX_KEY:
            problems.append(
                f"the tag {key[:20]}… has a key of {len(key)} characters, but EC2 allows {MAX_KEY}"
            )
        if len(value) > MAX_VALUE:
            problems.append(f"the tag {key} has {len(value)} characters, but EC2 allows {MAX_VALUE}")
        if key.lower().startswith("aws:"):
            problems.append(f"the tag {key} begins with aws:, which is reserved")
    if problems:
        raise InvalidJob(
            "\n".join(problems), remedy="Nothing was created. Change the job's tags and run it again."
        )


def _is_in_metadata(key: str) -> bool:
    return key not in _RESERVED and _IN_METADATA.fullmatch(key) is not None


def _listed(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]
