"""The conditions of policy statements.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

Values = Mapping[str, Sequence[str]]
"""The values of condition keys, whose names are in lower case; a key that a request does not have is missing."""

_ALL, _ANY, _IF_EXISTS = "ForAllValues:", "ForAnyValue:", "IfExists"


def holds(conditions: Mapping[str, Mapping[str, Any]], values: Values) -> bool:
    """Whether all conditions of a statement hold.

    Raises:
        ValueError: an operator is unknown.
    """
    return all(
        _holds(operator, values.get(key.lower()), as_list(expected))
        for operator, keys in conditions.items()
        for key, expected in keys.items()
    )


def matches_pattern(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern with `*` and `?`."""
    return _compiled(pattern).fullmatch(text) is not None


def as_list(value: Any) -> list[Any]:
    """The elements of what may be a list or a single element in a policy."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _holds(operator: str, actual: Sequence[str] | None, expected: list[Any]) -> bool:
    name = operator
    every, some = name.startswith(_ALL), name.startswith(_ANY)
    name = name.removeprefix(_ALL).removeprefix(_ANY)
    if name == "Null":
        return any((actual is None) == (str(word).lower() == "true") for word in expected)
    optional = name.endswith(_IF_EXISTS)
    name = name.removesuffix(_IF_EXISTS)
    negated = "Not" in name
    compare = _OPERATORS.get(name.replace("Not", "", 1) if negated else name)
    if compare is None:
        raise ValueError(f"unknown condition operator {operator}")

    def fits(value: str) -> bool:
        return any(_safely(compare, value, str(word)) for word in expected) != negated

    if every:
        return all(fits(value) for value in actual or ())
    if not actual:
        return optional or (negated and not some)
    return any(fits(value) for value in actual) if some else all(fits(value) for value in actual)


def _safely(compare: Callable[[str, str], bool], actual: str, expected: str) -> bool:
    try:
        return compare(actual, expected)
    except ValueError:
        return False  # a value that is no number, time or address


def _moment(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdecimal() else datetime.fromisoformat(text).timestamp()


def _equals_ignoring_case(actual: str, expected: str) -> bool:
    return actual.lower() == expected.lower()


def _is_in_network(actual: str, expected: str) -> bool:
    return ipaddress.ip_address(actual) in ipaddress.ip_network(expected, strict=False)


_OPERATORS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda actual, expected: actual == expected,
    "StringEqualsIgnoreCase": _equals_ignoring_case,
    "StringLike": lambda actual, expected: matches_pattern(expected, actual),
    "ArnEquals": lambda actual, expected: matches_pattern(expected, actual),
    "ArnLike": lambda actual, expected: matches_pattern(expected, actual),
    "Bool": _equals_ignoring_case,
    "BinaryEquals": lambda actual, expected: actual == expected,
    "IpAddress": _is_in_network,
    "NumericEquals": lambda actual, expected: float(actual) == float(expected),
    "NumericLessThan": lambda actual, expected: float(actual) < float(expected),
    "NumericLessThanEquals": lambda actual, expected: float(actual) <= float(expected),
    "NumericGreaterThan": lambda actual, expected: float(actual) > float(expected),
    "NumericGreaterThanEquals": lambda actual, expected: float(actual) >= float(expected),
    "DateEquals": lambda actual, expected: _moment(actual) == _moment(expected),
    "DateLessThan": lambda actual, expected: _moment(actual) < _moment(expected),
    "DateLessThanEquals": lambda actual, expected: _moment(actual) <= _moment(expected),
    "DateGreaterThan": lambda actual, expected: _moment(actual) > _moment(expected),
    "DateGreaterThanEquals": lambda actual, expected: _moment(actual) >= _moment(expected),
}
"""By the name without `Not`, as in `StringNotEquals`."""


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = ({"*": ".*", "?": "."}.get(mark, re.escape(mark)) for mark in re.split(r"([*?])", pattern))
    return re.compile("".join(parts), re.DOTALL)
