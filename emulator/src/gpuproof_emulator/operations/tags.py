"""Operations on the tags of resources."""

from __future__ import annotations

from typing import Any

from gpuproof_emulator.operations.call import OperationCall, request_tags
from gpuproof_emulator.operations.list import page
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.store import Resource

_MAX_TAGS = 50  # of one resource: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AddTags.html


def add_tags(call: OperationCall) -> dict[str, Any]:
    """`AddTags`."""
    resource = _find(call)
    merged = {**resource.tags, **request_tags(call.request)}
    if len(merged) > _MAX_TAGS:
        raise AwsError("ResourceLimitExceeded", f"A resource can have at most {_MAX_TAGS} tags.")
    with call.context.store.modify(resource):
        resource.tags = merged
    return {"Tags": as_list(merged)}


def list_tags(call: OperationCall) -> dict[str, Any]:
    """`ListTags`."""
    return page("Tags", as_list(_find(call).tags), {"MaxResults": _MAX_TAGS, **call.request})


def delete_tags(call: OperationCall) -> dict[str, Any]:
    """`DeleteTags`."""
    resource = _find(call)
    with call.context.store.modify(resource):
        resource.tags = {
            key: value for key, value in resource.tags.items() if key not in call.request["TagKeys"]
        }
    return {}


def as_list(tags: dict[str, str]) -> list[dict[str, str]]:
    """Tags in AWS's list format."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


OPERATIONS = {"AddTags": add_tags, "ListTags": list_tags, "DeleteTags": delete_tags}


def _find(call: OperationCall) -> Resource:
    arn = call.request["ResourceArn"]
    for resource in call.context.store.all(region=call.region):
        if resource.arn == arn:
            return resource
    raise AwsError("ValidationException", f"Could not find the resource {arn}.")
