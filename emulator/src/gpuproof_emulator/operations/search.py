"""`Search`, for training jobs and endpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuproof_emulator.execution.jobs.warm_pools import describe_with_warm_pool
from gpuproof_emulator.operations.call import OperationCall
from gpuproof_emulator.operations.list import page, parse_time
from gpuproof_emulator.operations.tags import as_list
from gpuproof_emulator.protocol import AwsError
from gpuproof_emulator.store import ENDPOINT, TRAINING, Resource

_MISSING = object()


def search(call: OperationCall) -> dict[str, Any]:
    """`Search`: filters on members (`ResourceConfig.InstanceType`) and tags (`Tags.team`), of which all or any must match."""
    wanted = call.request["Resource"]
    kind, visible = _SEARCHED[wanted]
    expression = call.request.get("SearchExpression") or {}
    found = [
        {**visible(item), "Tags": as_list(item.tags)}
        for item in call.context.store.all(kind, call.region)
        if _matches({**visible(item), "Tags": item.tags}, expression)
    ]
    by = call.request.get("SortBy", "CreationTime")
    found.sort(
        key=lambda item: _sort_key(_member(item, by)), reverse=call.request.get("SortOrder") != "Ascending"
    )
    return page("Results", [{wanted: item} for item in found], call.request)


OPERATIONS = {"Search": search}

_SEARCHED: dict[str, tuple[str, Callable[[Resource], dict[str, Any]]]] = {
    "TrainingJob": (TRAINING, describe_with_warm_pool),
    "Endpoint": (ENDPOINT, lambda endpoint: endpoint.document),
}
SEARCHED = frozenset(_SEARCHED)
"""Resources that can be searched; moto searches others."""

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "Equals": lambda value, expected: str(value) == expected,
    "NotEquals": lambda value, expected: str(value) != expected,
    "Contains": lambda value, expected: value is not _MISSING and expected in str(value),
    "Exists": lambda value, _: value is not _MISSING,
    "NotExists": lambda value, _: value is _MISSING,
    "GreaterThan": lambda value, expected: value is not _MISSING and _number(value) > _number(expected),
    "LessThan": lambda value, expected: value is not _MISSING and _number(value) < _number(expected),
    "GreaterThanOrEqualTo": lambda value, expected: (
        value is not _MISSING and _number(value) >= _number(expected)
    ),
    "LessThanOrEqualTo": lambda value, expected: (
        value is not _MISSING and _number(value) <= _number(expected)
    ),
    "In": lambda value, expected: str(value) in [item.strip() for item in str(expected).split(",")],
}


def _matches(document: Mapping[str, Any], expression: Mapping[str, Any]) -> bool:
    if expression.get("NestedFilters"):
        raise AwsError("ValidationException", "This emulator does not support NestedFilters.")
    checks = [
        *(
            _OPERATORS[item.get("Operator", "Equals")](_member(document, item["Name"]), item.get("Value"))
            for item in expression.get("Filters", ())
        ),
        *(_matches(document, below) for below in expression.get("SubExpressions", ())),
    ]
    return any(checks) if expression.get("Operator") == "Or" and checks else all(checks)


def _member(document: Mapping[str, Any], path: str) -> Any:
    """The member at a dotted path; a tag's key may itself contain dots."""
    if path.startswith("Tags."):
        return document["Tags"].get(path.removeprefix("Tags."), _MISSING)
    value: Any = document
    for part in path.split("."):
        value = value.get(part, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value


def _sort_key(value: Any) -> tuple[bool, float, str]:
    """Sort key: numbers by value, before texts."""
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, "" if is_number else str(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return parse_time(value, 0.0)
