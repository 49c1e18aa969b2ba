"""Operators on values: concatenation, paths, formatting and arithmetic, with partly unknown operands."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Sequence
from dataclasses import replace

from gpuproof.linter.analysis.evaluation.limits import MAX_END, MAX_TEXT, is_small
from gpuproof.linter.analysis.evaluation.own_paths import OwnPath, continued
from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value, default, known


def is_textual(value: Value) -> bool:
    """Whether a value is a text, or a text of which only the start or the end is known."""
    return value.text is not None or bool(value.prefix or value.suffix)


def concatenate(pieces: Sequence[Value]) -> Value:
    """The concatenation of texts; if some are unknown, the known start and end of the result."""
    if sum(len(piece.value) for piece in pieces if isinstance(piece.value, str)) > MAX_TEXT:
        return UNKNOWN
    # A path relative to the module means another one after `file://` or in a command.
    if any(isinstance(piece.text, OwnPath) for piece in pieces[1:]):
        pieces = [pieces[0], *(UNKNOWN if isinstance(piece.text, OwnPath) else piece for piece in pieces[1:])]
    if all(len(piece.options) == 1 and not isinstance(piece.value, (Entries, tuple)) for piece in pieces):
        text = "".join(str(piece.value) for piece in pieces)
        if len(pieces) > 1:
            text = continued(pieces[0], text)
        elif pieces and isinstance(pieces[0].text, OwnPath):
            return pieces[0]
        return known(text) if all(piece.certainty == "known" for piece in pieces) else default(text)
    return Value(
        "unknown", prefix=_known_begin(pieces), suffix=_known_begin(list(reversed(pieces)), at_end=True)
    )


def _known_begin(pieces: Sequence[Value], at_end: bool = False) -> str:
    text = ""
    for piece in pieces:
        value = piece.value
        if value is None or isinstance(value, (Entries, tuple)):
            rest = piece.suffix if at_end else piece.prefix
            text = rest + text if at_end else text + rest
            break
        text = f"{value}{text}" if at_end else f"{text}{value}"
        if len(text) > MAX_END:
            break
    return text[-MAX_END:] if at_end else text[:MAX_END]


def joined_path(pieces: Sequence[Value]) -> Value:
    """The result of `os.path.join`."""
    if pieces and all(piece.text is not None for piece in pieces):
        if sum(len(str(piece.text)) for piece in pieces) > MAX_TEXT:
            return UNKNOWN
        text = continued(pieces[0], posixpath.join(*(str(piece.text) for piece in pieces)))
        return known(text) if all(piece.certainty == "known" for piece in pieces) else default(text)
    separated: list[Value] = []
    for index, piece in enumerate(pieces):
        if index:
            separated.append(known("/"))
        separated.append(piece)
    return concatenate(separated)


def percent(left: Value, right: Value) -> Value:
    """The result of `text % values`."""
    values = right.items if right.items is not None else (right,)
    text = left.text or ""
    if _may_grow(text, "%", values):
        return UNKNOWN
    if all(value.is_sure and len(value.options) == 1 for value in values):
        try:
            result = text % tuple(value.value for value in values)
        except (TypeError, ValueError, KeyError, OverflowError):
            return UNKNOWN
        sure = left.certainty == "known" and all(value.certainty == "known" for value in values)
        return known(result) if sure else default(result)
    return Value("unknown", prefix=text.partition("%")[0])


def formatted(template: Value, arguments: Sequence[Value], named: dict[str | None, Value]) -> Value:
    """The result of `text.format(...)`."""
    values = [*arguments, *named.values()]
    text = template.text or ""
    if _may_grow(text, "{", values):
        return UNKNOWN
    if None not in named and all(len(value.options) == 1 for value in values):
        try:
            result = text.format(
                *(argument.value for argument in arguments),
                **{str(key): value.value for key, value in named.items()},
            )
        except (IndexError, KeyError, ValueError, AttributeError, TypeError, OverflowError):
            return UNKNOWN
        sure = all(value.certainty == "known" for value in (template, *values))
        return known(result) if sure else default(result)
    return Value("unknown", prefix=text.partition("{")[0], suffix=text.rpartition("}")[2])


def arithmetic(operator: ast.operator, left: Value, right: Value) -> Value:
    """The sum, difference, product or integer quotient of two numbers."""
    one, other = left.number, right.number
    if one is None or other is None:
        return UNKNOWN
    try:
        match operator:
            case ast.Add():
                result = one + other
            case ast.Sub():
                result = one - other
            case ast.Mult():
                result = one * other
            case ast.FloorDiv() if other:
                result = one // other
            case _:
                return UNKNOWN
    except OverflowError:
        return UNKNOWN
    if not is_small(result):
        return UNKNOWN
    return known(result) if left.certainty == right.certainty == "known" else default(result)


def replaced(text: Value, old: str | None, new: str | None) -> Value:
    """The result of `text.replace(old, new)`."""
    before = text.text
    if before is None or old is None or new is None:
        return UNKNOWN
    if len(before) + before.count(old) * len(new) > MAX_TEXT:
        return UNKNOWN
    return replace(text, options=(before.replace(old, new),))


_WIDTH = re.compile(r"%[^%a-zA-Z]*(\*|\d{4})|\{[^{}]*(\d{4}[^{}]*\}|\{)")
"""A field whose width or precision is large, or comes from a value."""


def _may_grow(template: str, mark: str, values: Sequence[Value]) -> bool:
    """Whether the formatted text may be longer than `MAX_TEXT`."""
    longest = max((len(str(value.text)) for value in values if value.text is not None), default=0)
    return len(template) + template.count(mark) * longest > MAX_TEXT or _WIDTH.search(template) is not None
