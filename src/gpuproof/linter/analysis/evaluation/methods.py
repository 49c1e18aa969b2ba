"""Methods of values that are evaluated: of texts, paths and mappings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gpuproof.linter.analysis.evaluation.operators import (
    concatenate,
    formatted,
    is_textual,
    joined_path,
    replaced,
)
from gpuproof.linter.analysis.evaluation.own_paths import OwnPath, own_method
from gpuproof.linter.analysis.values import UNKNOWN, Value, known

SAME_AS_ARGUMENT = frozenset(
    [
        "str",
        "int",
        "float",
        "bool",
        "list",
        "tuple",
        "pathlib.Path",
        "pathlib.PurePosixPath",
        "os.fspath",
        "os.path.abspath",
        "os.path.expanduser",
        "os.path.normpath",
        "os.path.realpath",
        "pathlib.PurePath",
    ]
)
"""Functions that return their first argument, or the same value of another type."""

_CONVERTERS: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": bool,
    "getint": int,
    "getfloat": float,
}


def method_value(
    name: str, receiver: Value, arguments: Sequence[Value], named: dict[str | None, Value]
) -> Value:
    """The result of a method; unknown for methods that are not evaluated."""
    if (path := own_method(name, receiver)) is not None:
        return path
    match name:
        case "format" if receiver.text is not None:
            return formatted(receiver, arguments, named)
        case "joinpath" if is_textual(receiver):
            return joined_path([receiver, *arguments])
        case "join" if receiver.text is not None and len(arguments) == 1:
            items = arguments[0].items
            separated = [part for item in items or () for part in (receiver, item)][1:]
            return concatenate(separated) if separated else UNKNOWN
        case "get" if receiver.entries is not None and arguments and arguments[0].is_known:
            found = receiver.at(arguments[0].value)
            fallback = arguments[1] if len(arguments) > 1 else named.get("default", known(None))
            return fallback if found.is_absent else found
        case "getint" | "getfloat" if receiver.entries is not None and len(arguments) == 2:
            found = receiver.at(*(argument.value for argument in arguments))
            return converted(name, found) if found.options else UNKNOWN
        case "lower" | "upper" | "strip" | "rstrip" | "lstrip" if receiver.text is not None and not arguments:
            return replace(receiver, options=(getattr(receiver.text, name)(),))
        case "copy" if receiver.entries is not None:
            return receiver
        case "as_posix" if receiver.text is not None:
            return receiver
        case "replace" if receiver.text is not None and len(arguments) == 2:
            return replaced(receiver, arguments[0].text, arguments[1].text)
        case _:
            return UNKNOWN


def converted(name: str, value: Value) -> Value:
    """The result of `int(value)` and the like; the value itself for other functions, and for lists and mappings."""
    convert = _CONVERTERS.get(name)
    if convert is str and isinstance(value.text, OwnPath):
        return value
    if convert is None or not value.options or value.entries is not None or value.items is not None:
        return value
    try:
        return replace(value, options=tuple(convert(option) for option in value.options))
    except (TypeError, ValueError, OverflowError):
        return UNKNOWN
