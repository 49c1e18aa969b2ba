"""Canonical JSON: the same document always results in the same bytes, whatever wrote it.

Source: RFC 8785 (JSON Canonicalization Scheme): no white space, keys sorted by their UTF-16 code units, numbers as ECMAScript
prints them, UTF-8.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NoReturn

_MOST_INTEGER = 2**53 - 1
"""Numbers of JSON are doubles: larger integers are rounded to the nearest (RFC 8785, section 3.2.2.3)."""
_MOST_DIGITS = 21


def canonical_json(value: Any) -> bytes:
    """The canonical form of a JSON value.

    Raises:
        ValueError: a value, key or number has no form in JSON.
    """
    return _text(value).encode("utf-8")  # fails for a lone surrogate, with a ValueError


def parse_strictly(content: bytes) -> Any:
    """Parse JSON that has one meaning only.

    Raises:
        ValueError: it is not JSON, an object has a key twice, or a number is not one of JSON.
    """
    try:
        return json.loads(content, object_pairs_hook=_unique, parse_constant=_reject_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int | float):
        return str(value) if isinstance(value, int) and abs(value) <= _MOST_INTEGER else _number(value)
    if isinstance(value, Mapping):
        known: Mapping[Any, Any] = value
        names = sorted(known, key=_code_units)
        return "{" + ",".join(f"{_text(name)}:{_text(known[name])}" for name in names) + "}"
    if isinstance(value, list | tuple):
        items: Sequence[Any] = value
        return "[" + ",".join(_text(item) for item in items) + "]"
    raise ValueError(f"{type(value).__name__} has no form in JSON")


def _code_units(name: Any) -> bytes:
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is not a key of JSON")
    return name.encode("utf-16-be")


def _number(value: float) -> str:
    """A number as ECMAScript's Number.prototype.toString prints it; Python's repr has the same digits."""
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ValueError(f"{value} has no form in JSON")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    _, parts, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    digits = "".join(map(str, parts))
    point = len(digits) + exponent
    if len(digits) <= point <= _MOST_DIGITS:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    if 0 < point <= _MOST_DIGITS:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def _reject_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")
