"""Lists of resources: filters, order and pages, the same for every kind."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuproof.emulator.operations.call import Call
from gpuproof.emulator.protocol import AwsError
from gpuproof.emulator.store import Resource

_PAGE = 10  # of every List operation of SageMaker that is not told otherwise


@dataclass(frozen=True)
class Listing:
    """How one kind is listed.

    Args:
        kind: of the resources.
        summaries: member of the answer that holds them.
        status: member of the document that tells the status; empty if there is none.
        order: ascending or descending unless the request says so.
        visible: the document as it is now.
    """

    kind: str
    summaries: str
    status: str = ""
    order: str = "Ascending"
    visible: Callable[[Resource], dict[str, Any]] = lambda resource: resource.document

    def answer(self, call: Call) -> dict[str, Any]:
        """One page of the list that the call asks for."""
        request = call.request
        found = [
            self.visible(item)
            for item in call.emulator.store.all(self.kind, call.region)
            if self._wanted(item, request)
        ]
        wanted_pool = request.get("WarmPoolStatusEquals")
        if wanted_pool:
            found = [item for item in found if item.get("WarmPoolStatus", {}).get("Status") == wanted_pool]
        by_name = request.get("SortBy") == "Name"
        name = next((key for key in found[0] if key.endswith("Name")), "") if found else ""
        found.sort(
            key=lambda item: item[name] if by_name else self._sort_key(item, request),
            reverse=request.get("SortOrder", self.order) == "Descending",
        )
        return page(self.summaries, found, request)

    def _sort_key(self, item: Mapping[str, Any], request: Mapping[str, Any]) -> Any:
        if request.get("SortBy") == "Status":
            return item.get(self.status, "")
        return item["CreationTime"]

    def _wanted(self, item: Resource, request: Mapping[str, Any]) -> bool:
        document = item.document
        if (part := request.get("NameContains")) and part.lower() not in item.name.lower():
            return False
        if (status := request.get("StatusEquals")) and document.get(self.status) != status:
            return False
        made, changed = document["CreationTime"], document.get("LastModifiedTime", document["CreationTime"])
        return all(
            (
                made > moment(request.get("CreationTimeAfter"), float("-inf")),
                made < moment(request.get("CreationTimeBefore"), float("inf")),
                changed > moment(request.get("LastModifiedTimeAfter"), float("-inf")),
                changed < moment(request.get("LastModifiedTimeBefore"), float("inf")),
            )
        )


def page(member: str, found: list[dict[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    """The page that the request's token and size ask for."""
    start = _position(request.get("NextToken"))
    size = request.get("MaxResults") or _PAGE
    answer: dict[str, Any] = {member: found[start : start + size]}
    if start + size < len(found):
        answer["NextToken"] = base64.b64encode(f"from:{start + size}".encode()).decode()
    return answer


def moment(value: Any, otherwise: float) -> float:
    """A time of a request, in seconds since the epoch."""
    if value is None:
        return otherwise
    if isinstance(value, int | float):
        return float(value)
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError as error:
        raise AwsError("SerializationException", f"{value} is no time.") from error


def _position(token: str | None) -> int:
    if not token:
        return 0
    try:
        return int(base64.b64decode(token, validate=True).decode().removeprefix("from:"))
    except ValueError as error:
        raise AwsError("ValidationException", "The NextToken is not valid.") from error
