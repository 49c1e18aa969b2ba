"""What the metadata service of an instance knows.

Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-categories.html
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.protocol import ACCOUNT

_TAGS = "meta-data/tags/instance"
_NOTICE = "meta-data/spot"


def instance_metadata(
    instance: Mapping[str, Any], region: str, user_data: str, role: tuple[str, Mapping[str, Any]] | None
) -> dict[str, str]:
    """Texts by path below `latest/`.

    Args:
        instance: as in the response of `DescribeInstances`.
        region: where it is.
        user_data: its script.
        role: name and credentials (as of `AssumeRole`) of its instance profile's role; None without a profile.
    """
    zone = instance.get("Placement", {}).get("AvailabilityZone", f"{region}a")
    known = {
        "user-data": user_data,
        "meta-data/instance-id": instance["InstanceId"],
        "meta-data/ami-launch-index": str(instance.get("AmiLaunchIndex", 0)),
        "meta-data/ami-id": instance.get("ImageId", ""),
        "meta-data/instance-type": instance["InstanceType"],
        "meta-data/instance-life-cycle": instance.get("InstanceLifecycle", "on-demand"),
        "meta-data/placement/region": region,
        "meta-data/placement/availability-zone": zone,
        "meta-data/local-ipv4": instance.get("PrivateIpAddress", ""),
        "meta-data/local-hostname": instance.get("PrivateDnsName", ""),
        "dynamic/instance-identity/document": json.dumps(
            {
                "accountId": ACCOUNT,
                "availabilityZone": zone,
                "imageId": instance.get("ImageId", ""),
                "instanceId": instance["InstanceId"],
                "instanceType": instance["InstanceType"],
                "privateIp": instance.get("PrivateIpAddress", ""),
                "region": region,
                "version": "2017-09-30",
            }
        ),
    }
    if role is not None:
        known |= role_metadata(*role)
    return known


def role_metadata(name: str, keys: Mapping[str, Any]) -> dict[str, str]:
    """The texts about a role.

    Args:
        name: the role's.
        keys: its credentials, as of `AssumeRole`.
    """
    document = {
        "Code": "Success",
        "Type": "AWS-HMAC",
        "LastUpdated": "2026-01-01T00:00:00Z",
        "AccessKeyId": keys["AccessKeyId"],
        "SecretAccessKey": keys["SecretAccessKey"],
        "Token": keys["SessionToken"],
        # They are valid as long as the emulator runs.
        "Expiration": "2099-01-01T00:00:00Z",
    }
    folder = "meta-data/iam/security-credentials/"
    return {folder: name, f"{folder}{name}": json.dumps(document)}


def tag_metadata(tags: Mapping[str, str]) -> dict[str, str]:
    """The texts about an instance's tags."""
    return {f"{_TAGS}/{key}": value for key, value in tags.items()}


def rebalance_recommendation() -> dict[str, str]:
    """The text that says that the spot instance is at elevated risk of interruption.

    Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
    """
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"meta-data/events/recommendations/rebalance": json.dumps({"noticeTime": moment})}


def spot_notice(seconds: float) -> dict[str, str]:
    """The texts that announce that the spot instance is reclaimed.

    Args:
        seconds: until then.
    """
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
    return {
        f"{_NOTICE}/instance-action": json.dumps({"action": "terminate", "time": moment}),
        f"{_NOTICE}/termination-time": moment,
    }
