"""`GetResources` of the Resource Groups Tagging API: moto's resources and the emulator's own SageMaker resources."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof_emulator.context import Context
from gpuproof_emulator.moto_journal import Journal
from gpuproof_emulator.operations.tags import as_list
from gpuproof_emulator.protocol import AwsError, AwsRequest, AwsResponse, json_response
from gpuproof_emulator.store import Resource

_PAGE = 100  # https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html


def handle(context: Context, journal: Journal, request: AwsRequest) -> AwsResponse:
    """Return one page of the resources that match the request."""
    document = request.document()
    own = [item for item in context.store.all(region=request.region) if matches(item, document)]
    found = [
        *_moto_resources(journal, request, document),
        *({"ResourceARN": item.arn, "Tags": as_list(item.tags)} for item in own),
    ]
    found.sort(key=lambda item: item["ResourceARN"])
    start = _position(document.get("PaginationToken"))
    end = start + int(document.get("ResourcesPerPage") or _PAGE)
    token = base64.b64encode(str(end).encode()).decode() if end < len(found) else ""
    return json_response(request, {"PaginationToken": token, "ResourceTagMappingList": found[start:end]})


def matches(resource: Resource, document: Mapping[str, Any]) -> bool:
    """Whether a SageMaker resource matches a request. Untagged resources never match: AWS returns only tagged ones."""
    kinds = document.get("ResourceTypeFilters") or ()
    if kinds and not {"sagemaker", f"sagemaker:{resource.kind}"}.intersection(kinds):
        return False
    arns = document.get("ResourceARNList") or ()
    if arns and resource.arn not in arns:
        return False
    return bool(resource.tags) and _has_tags(resource.tags, document.get("TagFilters") or ())


def _has_tags(tags: Mapping[str, str], filters: Sequence[Mapping[str, Any]]) -> bool:
    return all(
        item["Key"] in tags and (not item.get("Values") or tags[item["Key"]] in item["Values"])
        for item in filters
    )


def _moto_resources(
    journal: Journal, request: AwsRequest, document: Mapping[str, Any]
) -> list[dict[str, Any]]:
    kinds = document.get("ResourceTypeFilters") or ()
    if kinds and all(kind.partition(":")[0] == "sagemaker" for kind in kinds):
        return []
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        query = {**document, "PaginationToken": token, "ResourcesPerPage": _PAGE}
        body = json.dumps({name: value for name, value in query.items() if value}).encode()
        response = journal.handle(request.with_body(body), read_only=True)
        page = json.loads(b"".join(response.body))
        if response.status != 200:
            raise AwsError(
                page.get("__type", "InvalidParameterException"), page.get("message", ""), response.status
            )
        found += page["ResourceTagMappingList"]
        token = page.get("PaginationToken") or ""
        if not token:
            return found


def _position(token: str | None) -> int:
    if not token:
        return 0
    try:
        return int(base64.b64decode(token, validate=True))
    except ValueError as error:
        raise AwsError("PaginationTokenExpiredException", "The pagination token is not valid.") from error
