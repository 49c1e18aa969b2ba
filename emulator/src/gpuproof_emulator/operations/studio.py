"""Operations on the apps of Studio. Apps are recorded and listed with their instances; nothing runs in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuproof_emulator.operations.call import OperationCall, add_resource, request_tags
from gpuproof_emulator.operations.list import page
from gpuproof_emulator.protocol import AwsError, now
from gpuproof_emulator.store import APP, Resource, resource_arn

_PLACES = ("UserProfileName", "SpaceName")
_MISSING = "RecordNotFound: App does not exist."


def create(call: OperationCall) -> dict[str, Any]:
    """`CreateApp`: the app is in service at once. Domains, user profiles and spaces are not checked."""
    request = call.request
    moment = now()
    name = _name(request)
    document = {
        **{key: value for key, value in request.items() if key != "Tags"},
        "AppArn": resource_arn(APP, call.region, name),
        "Status": "InService",
        "CreationTime": moment,
        "LastUserActivityTimestamp": moment,
    }
    app = Resource(APP, call.region, name, document, request_tags(request))
    return {"AppArn": add_resource(call, app, "App already exists: {arn}.")}


def describe(call: OperationCall) -> dict[str, Any]:
    """`DescribeApp`."""
    return call.find(APP, _name(call.request), _MISSING).document


def list_apps(call: OperationCall) -> dict[str, Any]:
    """`ListApps`."""
    request = call.request
    found = [
        app.document for app in call.context.store.all(APP, call.region) if _matches(app.document, request)
    ]
    found.sort(key=lambda app: app["CreationTime"], reverse=request.get("SortOrder") == "Descending")
    return page("Apps", found, request)


def delete(call: OperationCall) -> dict[str, Any]:
    """`DeleteApp`."""
    call.context.store.remove(call.find(APP, _name(call.request), _MISSING))
    return {}


OPERATIONS = {"CreateApp": create, "DescribeApp": describe, "ListApps": list_apps, "DeleteApp": delete}


def _name(request: Mapping[str, Any]) -> str:
    """The app's part of its ARN.

    Raises:
        AwsError: neither a user profile nor a space is named, or both.
    """
    places = [request[name] for name in _PLACES if request.get(name)]
    if len(places) != 1:
        raise AwsError("ValidationException", "Specify either UserProfileName or SpaceName.")
    return "/".join((request["DomainId"], places[0], request["AppType"], request["AppName"]))


def _matches(app: Mapping[str, Any], request: Mapping[str, Any]) -> bool:
    pairs = (("DomainId", "DomainIdEquals"), *((name, f"{name}Equals") for name in _PLACES))
    return all(not request.get(condition) or app.get(name) == request[condition] for name, condition in pairs)
