"""List operations: filters, order and pages, the same for every kind of resource."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.store import Resource

_PAGE = 10  # default MaxResults of SageMaker's List operations


@dataclass(frozen=True)
class Listing:
    """How one kind of resource is listed.

    Args:
        kind: of the resources.
        summaries: member of the response that holds the list.
        status: member of the document that holds the status; empty if there is none.
        order: `Ascending` or `Descending`, unless the request specifies one.
        visible: returns the current document of a resource.
        status_after_paging: whether StatusEquals together with MaxResults filters a page of resources of any status.
        also: whether a document matches the filters that only this kind of resource has.
    """

    kind: str
    summaries: str
    status: str = ""
    order: str = "Ascending"
    visible: Callable[[Resource], dict[str, Any]] = lambda resource: resource.document
    status_after_paging: bool = False
    also: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] = lambda _document, _request: True

    def list_page(self, call: OperationCall) -> dict[str, Any]:
        """Return one page of the resources that match the call."""
        request = call.request
        # Source: the documentation of ListTrainingJobs.
        late = self.status_after_paging and "StatusEquals" in request and "MaxResults" in request
        found = [
            self.visible(item)
            for item in call.context.store.all(self.kind, call.region)
            if self._matches(item, request, any_status=late)
        ]
        pool_status = request.get("WarmPoolStatusEquals")
        if pool_status:
            found = [item for item in found if item.get("WarmPoolStatus", {}).get("Status") == pool_status]
        by_name = request.get("SortBy") == "Name"
        name = next((key for key in found[0] if key.endswith("Name")), "") if found else ""
        found.sort(
            key=lambda item: item[name] if by_name else self._sort_key(item, request),
            reverse=request.get("SortOrder", "Descending" if late else self.order) == "Descending",
        )
        response = page(self.summaries, found, request)
        if late:
            status = request["StatusEquals"]
            response[self.summaries] = [
                item for item in response[self.summaries] if item[self.status] == status
            ]
        return response

    def _sort_key(self, item: Mapping[str, Any], request: Mapping[str, Any]) -> Any:
        if request.get("SortBy") == "Status":
            return item.get(self.status, "")
        return item["CreationTime"]

    def _matches(self, item: Resource, request: Mapping[str, Any], *, any_status: bool) -> bool:
        document = item.document
        if (part := request.get("NameContains")) and part.lower() not in item.name.lower():
            return False
        status = request.get("StatusEquals")
        if status and not any_status and document.get(self.status) != status:
            return False
        made, changed = document["CreationTime"], document.get("LastModifiedTime", document["CreationTime"])
        return all(
            (
                made > parse_time(request.get("CreationTimeAfter"), float("-inf")),
                made < parse_time(request.get("CreationTimeBefore"), float("inf")),
                changed > parse_time(request.get("LastModifiedTimeAfter"), float("-inf")),
                changed < parse_time(request.get("LastModifiedTimeBefore"), float("inf")),
                self.also(document, request),
            )
        )


def page(member: str, found: list[dict[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    """The page at the request's `NextToken`, of at most `MaxResults` items."""
    start = _position(request.get("NextToken"))
    size = request.get("MaxResults") or _PAGE
    response: dict[str, Any] = {member: found[start : start + size]}
    if start + size < len(found):
        response["NextToken"] = base64.b64encode(f"from:{start + size}".encode()).decode()
    return response


def parse_time(value: Any, default: float) -> float:
    """A time in a request, in seconds since the epoch; without a time zone, it is in UTC."""
    if value is None:
        return default
    if isinstance(value, int | float):
        return float(value)
    try:
        moment = datetime.fromisoformat(str(value))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError as error:
        raise AwsError("SerializationException", f"{value} is not a time.") from error


def _position(token: str | None) -> int:
    if not token:
        return 0
    try:
        return int(base64.b64decode(token, validate=True).decode().removeprefix("from:"))
    except ValueError as error:
        raise AwsError("ValidationException", "The NextToken is not valid.") from error
