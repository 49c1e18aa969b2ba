"""The result of evaluating an expression: a value that is known, a default that may be overridden, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpuproof.linter.source.span import Span, Unit

Certainty = Literal["known", "default", "unknown", "absent"]
"""`default` may be overridden: argparse, environment, parameters; `absent` means that the expression is missing."""


@dataclass(frozen=True)
class Value:
    """The possible values of an expression.

    Args:
        options: the possible values; several for `a if x else b`. Empty if unknown or absent.
    """

    certainty: Certainty
    options: tuple[Any, ...] = ()
    span: Span | None = None
    prefix: str = ""
    suffix: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it is certainly this one value."""
        return self.certainty == "known" and len(self.options) == 1

    @property
    def is_sure(self) -> bool:
        """Whether it has options, known or default."""
        return bool(self.options)

    @property
    def is_absent(self) -> bool:
        """Whether it is not written, and cannot be in an unknown `**kwargs`."""
        return self.certainty == "absent"

    @property
    def is_unset(self) -> bool:
        """Whether it is absent or certainly None, which most parameters have as their default."""
        return self.is_absent or (self.is_known and self.options[0] is None)

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known about it."""
        return self.certainty == "unknown"

    @property
    def value(self) -> Any:
        """The single value, known or default; None if there is none, or several."""
        return self.options[0] if len(self.options) == 1 else None

    @property
    def text(self) -> str | None:
        """The single value if it is a text."""
        return self.value if isinstance(self.value, str) else None

    @property
    def number(self) -> float | int | None:
        """The single value if it is a number; booleans are not numbers."""
        value = self.value
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def flag(self) -> bool | None:
        """The single value if it is a boolean."""
        return self.value if isinstance(self.value, bool) else None

    @property
    def entries(self) -> Entries | None:
        """The single value if it is a mapping, of `Value`s."""
        return self.value if isinstance(self.value, Entries) else None

    @property
    def items(self) -> tuple[Value, ...] | None:
        """The items of the single value if it is a list or tuple, each a `Value`."""
        return self.value if isinstance(self.value, tuple) else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The options that are texts."""
        return tuple(option for option in self.options if isinstance(option, str))

    @property
    def parts(self) -> Mapping[Any, Value]:
        """The entries of the mapping, empty if it is not one: `value.parts.get("enabled", ABSENT).flag`."""
        return self.entries or {}

    def at(self, *path: Any) -> Value:
        """The value at a path of keys: unknown if it may exist, absent if it certainly does not."""
        value: Value = self
        for key in path:
            entries = value.entries
            if entries is None and value.items is not None and isinstance(key, int):
                value = value.items[key] if key < len(value.items) else ABSENT
            elif entries is None:
                return ABSENT if value.is_absent else UNKNOWN
            else:
                value = entries.get(key, ABSENT if entries.complete else UNKNOWN)
        return value

    def plain(self) -> Any:
        """As plain dicts, lists and scalars; unknown items become None."""
        return _Plain().convert(self.value)

    def as_default(self) -> Value:
        """The same value, at most a default."""
        return replace(self, certainty="default") if self.certainty == "known" else self

    def with_span(self, span: Span | None) -> Value:
        """The same value with another span."""
        # Not `dataclasses.replace`, which takes three times as long: every evaluation ends here.
        if span is None:
            return self
        return Value(self.certainty, self.options, span, self.prefix, self.suffix)


class Entries(dict[Any, Value]):
    """A mapping whose values are `Value`s.

    Attributes:
        complete: whether these are all keys: there is no unknown key and no unknown `**rest`.
        file: the settings file that the mapping is from; None for others.
    """

    complete: bool = True
    file: Unit | None = None


MAX_OPTIONS = 64
"""A value with more alternatives is unknown."""
MAX_PLAIN = 100_000
"""Items of a value as plain Python; the others are None."""
UNKNOWN = Value("unknown")
ABSENT = Value("absent")


def known(value: Any, span: Span | None = None) -> Value:
    """Create a known value."""
    return Value("known", (value,), span)


def default(value: Any, span: Span | None = None) -> Value:
    """Create a default value."""
    return Value("default", (value,), span)


def one_of(values: Iterable[Value], span: Span | None = None) -> Value:
    """Combine alternatives; unknown if one of them is."""
    values = list(values)
    if len(values) == 1:
        return values[0].with_span(span)
    options: list[Any] = []
    certainty: Certainty = "known"
    for value in values:
        if not value.options:
            return Value("unknown", (), span)
        if len(options) + len(value.options) > MAX_OPTIONS:
            return Value("unknown", (), span)
        options += [option for option in value.options if not _is_among(option, options)]
        if value.certainty == "default":
            certainty = "default"
    return Value(certainty, tuple(options), span) if options else Value("unknown", (), span)


def _is_among(option: Any, options: list[Any]) -> bool:
    """Whether an option is one of some; mappings and lists, whose comparison may take very long, are compared by identity."""
    if isinstance(option, (Entries, tuple)):
        return any(option is other for other in options)
    return option in options


class _Plain:
    """Converts values to plain dicts, lists and scalars, up to a number of them: nested values may be shared."""

    def __init__(self) -> None:
        self._left = MAX_PLAIN

    def convert(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            return None
        if isinstance(value, Entries):
            return {key: self.convert(item.value) for key, item in value.items()}
        if isinstance(value, tuple):
            return [self.convert(item.value) if isinstance(item, Value) else item for item in value]
        return value
