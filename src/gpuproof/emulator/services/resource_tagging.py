"""`GetResources` of the Resource Groups Tagging API: moto's resources and SageMaker's own."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpuproof.emulator.arns import arn_of
from gpuproof.emulator.emulator import Emulator
from gpuproof.emulator.operations.tags import as_list
from gpuproof.emulator.protocol import Answer, AwsError, AwsRequest, json_answer
from gpuproof.emulator.store import Resource

_PAGE = 100  # https://docs.aws.amazon.com/resourcegroupstagging/latest/APIReference/API_GetResources.html


def answer(emulator: Emulator, request: AwsRequest) -> Answer:
    """One page of what the request asks for."""
    document = request.document()
    own = [item for item in emulator.store.all(region=request.region) if wanted(item, document)]
    found = [
        *_motos(emulator, request, document),
        *({"ResourceARN": arn_of(item), "Tags": as_list(item.tags)} for item in own),
    ]
    found.sort(key=lambda item: item["ResourceARN"])
    start = _position(document.get("PaginationToken"))
    end = start + int(document.get("ResourcesPerPage") or _PAGE)
    token = base64.b64encode(str(end).encode()).decode() if end < len(found) else ""
    return json_answer(request, {"PaginationToken": token, "ResourceTagMappingList": found[start:end]})


def wanted(resource: Resource, document: Mapping[str, Any]) -> bool:
    """Whether a resource of SageMaker's is meant by a request. Without tags it never is: AWS lists what was tagged."""
    kinds = document.get("ResourceTypeFilters") or ()
    if kinds and not {"sagemaker", f"sagemaker:{resource.kind}"}.intersection(kinds):
        return False
    arns = document.get("ResourceARNList") or ()
    if arns and arn_of(resource) not in arns:
        return False
    return bool(resource.tags) and _tagged(resource.tags, document.get("TagFilters") or ())


def _tagged(tags: Mapping[str, str], filters: Sequence[Mapping[str, Any]]) -> bool:
    return all(
        item["Key"] in tags and (not item.get("Values") or tags[item["Key"]] in item["Values"])
        for item in filters
    )


def _motos(emulator: Emulator, request: AwsRequest, document: Mapping[str, Any]) -> list[dict[str, Any]]:
    kinds = document.get("ResourceTypeFilters") or ()
    if kinds and all(kind.partition(":")[0] == "sagemaker" for kind in kinds):
        return []
    found: list[dict[str, Any]] = []
    token = ""
    while True:
        asked = {**document, "PaginationToken": token, "ResourcesPerPage": _PAGE}
        body = json.dumps({name: value for name, value in asked.items() if value}).encode()
        said = emulator.journal.answer(request.with_body(body), only_reads=True)
        page = json.loads(b"".join(said.body))
        if said.status != 200:
            raise AwsError(
                page.get("__type", "InvalidParameterException"), page.get("message", ""), said.status
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
