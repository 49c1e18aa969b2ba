"""`Search`, for training jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuproof.emulator.arns import TRAINING
from gpuproof.emulator.execution.jobs.warm_pools import with_pool
from gpuproof.emulator.operations.call import Call
from gpuproof.emulator.operations.list import moment, page
from gpuproof.emulator.operations.tags import as_list
from gpuproof.emulator.protocol import AwsError

_MISSING = object()


def search(call: Call) -> dict[str, Any]:
    """`Search`: filters on members (`ResourceConfig.InstanceType`) and on tags (`Tags.team`), all or any of them."""
    if call.request["Resource"] != "TrainingJob":
        raise AwsError("ValidationException", "This emulator searches for TrainingJob alone.")
    expression = call.request.get("SearchExpression") or {}
    found = [
        {**with_pool(job), "Tags": as_list(job.tags)}
        for job in call.emulator.store.all(TRAINING, call.region)
        if _meets({**with_pool(job), "Tags": job.tags}, expression)
    ]
    by = call.request.get("SortBy", "CreationTime")
    found.sort(key=lambda job: _rank(_member(job, by)), reverse=call.request.get("SortOrder") != "Ascending")
    return page("Results", [{"TrainingJob": job} for job in found], call.request)


OPERATIONS = {"Search": search}

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "Equals": lambda value, wanted: str(value) == wanted,
    "NotEquals": lambda value, wanted: str(value) != wanted,
    "Contains": lambda value, wanted: value is not _MISSING and wanted in str(value),
    "Exists": lambda value, _: value is not _MISSING,
    "NotExists": lambda value, _: value is _MISSING,
    "GreaterThan": lambda value, wanted: value is not _MISSING and _number(value) > _number(wanted),
    "LessThan": lambda value, wanted: value is not _MISSING and _number(value) < _number(wanted),
    "GreaterThanOrEqualTo": lambda value, wanted: value is not _MISSING and _number(value) >= _number(wanted),
    "LessThanOrEqualTo": lambda value, wanted: value is not _MISSING and _number(value) <= _number(wanted),
    "In": lambda value, wanted: str(value) in [item.strip() for item in str(wanted).split(",")],
}


def _meets(document: Mapping[str, Any], expression: Mapping[str, Any]) -> bool:
    if expression.get("NestedFilters"):
        raise AwsError("ValidationException", "This emulator does not know NestedFilters.")
    checks = [
        *(
            _OPERATORS[item.get("Operator", "Equals")](_member(document, item["Name"]), item.get("Value"))
            for item in expression.get("Filters", ())
        ),
        *(_meets(document, below) for below in expression.get("SubExpressions", ())),
    ]
    return any(checks) if expression.get("Operator") == "Or" and checks else all(checks)


def _member(document: Mapping[str, Any], path: str) -> Any:
    """The member at a path; a tag's key may hold dots itself."""
    if path.startswith("Tags."):
        return document["Tags"].get(path.removeprefix("Tags."), _MISSING)
    value: Any = document
    for part in path.split("."):
        value = value.get(part, _MISSING) if isinstance(value, Mapping) else _MISSING
    return value


def _rank(value: Any) -> tuple[bool, float, str]:
    """Numbers by their value, and before texts."""
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if is_number else 0.0, "" if is_number else str(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return moment(value, 0.0)
