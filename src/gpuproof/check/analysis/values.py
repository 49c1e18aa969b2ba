"""What the resolver makes of an expression: a value that is known, a default that may be overridden, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpuproof.check.source.span import Span

Certainty = Literal["known", "default", "unknown", "absent"]
"""`default` holds unless somebody says otherwise: argparse, environment, parameters; `absent` was not written at all."""


@dataclass(frozen=True)
class Value:
    """What an expression can be.

    Args:
        certainty: how sure that is.
        options: what it can be; several for `a if x else b`. Empty when unknown or absent.
        span: where it is written.
        prefix: how an unknown text is known to begin.
        suffix: how an unknown text is known to end.
    """

    certainty: Certainty
    options: tuple[Any, ...] = ()
    span: Span | None = None
    prefix: str = ""
    suffix: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it is certainly this value and no other."""
        return self.certainty == "known" and len(self.options) == 1

    @property
    def is_sure(self) -> bool:
        """Whether its options are known or defaults: something can be said."""
        return bool(self.options)

    @property
    def is_absent(self) -> bool:
        """Whether it was not written, and nothing unknown (`**kwargs`) may carry it."""
        return self.certainty == "absent"

    @property
    def is_unknown(self) -> bool:
        """Whether nothing may be said about it."""
        return self.certainty == "unknown"

    @property
    def value(self) -> Any:
        """The one value, known or default; None where there is none or there are several."""
        return self.options[0] if len(self.options) == 1 else None

    @property
    def text(self) -> str | None:
        """The one text."""
        return self.value if isinstance(self.value, str) else None

    @property
    def number(self) -> float | int | None:
        """The one number; booleans are none."""
        value = self.value
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def flag(self) -> bool | None:
        """The one truth."""
        return self.value if isinstance(self.value, bool) else None

    @property
    def entries(self) -> Entries | None:
        """The one mapping; its values are `Value`s again."""
        return self.value if isinstance(self.value, Entries) else None

    @property
    def items(self) -> tuple[Value, ...] | None:
        """The items of the one list or tuple, each a `Value`."""
        return self.value if isinstance(self.value, tuple) else None

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text that it can be."""
        return tuple(option for option in self.options if isinstance(option, str))

    @property
    def parts(self) -> Mapping[Any, Value]:
        """The entries of the one mapping, empty where there is none: `value.parts.get("enabled", ABSENT).flag`."""
        return self.entries or {}

    def at(self, *path: Any) -> Value:
        """What stands at a path of keys below it: unknown where it may be there, absent where it is not."""
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
        """As plain dicts, lists and scalars; what is unknown within becomes None."""
        return _plain(self.value)

    def as_default(self) -> Value:
        """The same, no surer than a default."""
        return replace(self, certainty="default") if self.certainty == "known" else self

    def with_span(self, span: Span | None) -> Value:
        """The same, written elsewhere."""
        return replace(self, span=span) if span is not None else self


class Entries(dict[Any, Value]):
    """A mapping whose values are `Value`s.

    Attributes:
        complete: whether these are all keys: no unknown key and no unknown `**rest`.
    """

    complete: bool = True


UNKNOWN = Value("unknown")
ABSENT = Value("absent")


def known(value: Any, span: Span | None = None) -> Value:
    """A value that is certain."""
    return Value("known", (value,), span)


def default(value: Any, span: Span | None = None) -> Value:
    """A value that holds unless somebody says otherwise."""
    return Value("default", (value,), span)


def one_of(values: Iterable[Value], span: Span | None = None) -> Value:
    """Either of several; unknown if one of them is."""
    values = list(values)
    if len(values) == 1:
        return values[0].with_span(span)
    options: list[Any] = []
    certainty: Certainty = "known"
    for value in values:
        if not value.options:
            return Value("unknown", (), span)
        options += [option for option in value.options if option not in options]
        if value.certainty == "default":
            certainty = "default"
    return Value(certainty, tuple(options), span) if options else Value("unknown", (), span)


def _plain(value: Any) -> Any:
    if isinstance(value, Entries):
        return {key: _plain(one.value) for key, one in value.items()}
    if isinstance(value, tuple):
        return [_plain(one.value) if isinstance(one, Value) else one for one in value]
    return value
