"""Tags of the instance and its volume: those by which GPUproof finds a run from any machine, and the user's."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuproof.backends.aws.services.ec2 import RUN_TAG
from gpuproof.backends.ec2.launch_input import LaunchInput
from gpuproof.backends.ec2.target import EC2Target
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


def instance_tags(plan: LaunchInput, target: EC2Target) -> list[dict[str, str]]:
    """The instance's tags in the form of the API; without the user's tags whose keys it cannot have."""
    all_tags = _tags(plan, target)
    return _listed({key: value for key, value in all_tags.items() if _is_in_metadata(key)})


def volume_tags(plan: LaunchInput, target: EC2Target) -> list[dict[str, str]]:
    """The volume's tags in the form of the API.

    Raises:
        InvalidJob: the user's tags exceed EC2's limits.
    """
    return _listed(_tags(plan, target))


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
