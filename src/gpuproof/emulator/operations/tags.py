"""Tags of SageMaker's resources."""

from __future__ import annotations

from typing import Any

from gpuproof.emulator.arns import arn_of
from gpuproof.emulator.operations.call import Call
from gpuproof.emulator.operations.list import page
from gpuproof.emulator.protocol import AwsError
from gpuproof.emulator.store import Resource

_MOST = 50  # tags of one resource: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AddTags.html


def add_tags(call: Call) -> dict[str, Any]:
    """`AddTags`."""
    resource = _tagged(call)
    merged = {**resource.tags, **{tag["Key"]: tag["Value"] for tag in call.request["Tags"]}}
    if len(merged) > _MOST:
        raise AwsError("ResourceLimitExceeded", f"A resource has no more than {_MOST} tags.")
    with call.emulator.store.changing(resource):
        resource.tags = merged
    return {"Tags": as_list(merged)}


def list_tags(call: Call) -> dict[str, Any]:
    """`ListTags`."""
    return page("Tags", as_list(_tagged(call).tags), {"MaxResults": _MOST, **call.request})


def delete_tags(call: Call) -> dict[str, Any]:
    """`DeleteTags`."""
    resource = _tagged(call)
    with call.emulator.store.changing(resource):
        resource.tags = {
            key: value for key, value in resource.tags.items() if key not in call.request["TagKeys"]
        }
    return {}


def as_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags as AWS writes them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


OPERATIONS = {"AddTags": add_tags, "ListTags": list_tags, "DeleteTags": delete_tags}


def _tagged(call: Call) -> Resource:
    asked = call.request["ResourceArn"]
    for resource in call.emulator.store.all(region=call.region):
        if arn_of(resource) == asked:
            return resource
    raise AwsError("ValidationException", f"Could not find the resource {asked}.")
