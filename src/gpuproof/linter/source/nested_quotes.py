"""Strings inside the fields of f-strings that only Python 3.12 and later accept: `f"{row["loss"]}"`.

Earlier versions end the f-string at the second quote, so that a check with one of them could not read a script that is
right for the job's Python. Source: PEP 701, https://peps.python.org/pep-0701/.
"""

from __future__ import annotations

import re
from typing import NamedTuple

FIRST_VERSION = (3, 12)
"""The first version of Python that accepts them."""

_STRING = re.compile(
    r"""(?<![A-Za-z0-9_])([rbu]|f|rb|br|fr|rf)?(\"{3}|'{3}|"|')""",
    re.IGNORECASE,
)
_MAX_FIELDS = 20
"""Fields inside fields; what has more is no Python."""
_OTHER = {'"': "'", "'": '"'}


class Edit(NamedTuple):
    """A text of the same length for a part of the source.

    Args:
        offset: characters before the part.
    """

    offset: int
    text: str


def nested_quotes(source: str) -> list[Edit]:
    """What makes the f-strings of a source readable for earlier versions, in its order; empty if they are.

    Quotes become the other quotes, and backslashes in fields become spaces.
    """
    scanner = _Scanner(source)
    scanner.code(0, ())
    return sorted(scanner.edits)


def requoted(source: str) -> str:
    """The source with other quotes in the fields of f-strings, in the same lines and columns."""
    parts: list[str] = []
    at = 0
    for offset, text in nested_quotes(source):
        parts += (source[at:offset], text)
        at = offset + len(text)
    return "".join((*parts, source[at:]))


class _Scanner:
    def __init__(self, source: str) -> None:
        self._source = source
        self._fields = 0
        self.edits: list[Edit] = []

    def code(self, at: int, outer: tuple[str, ...]) -> int:
        """Scan code from an offset: all of it, or a field of the f-strings with the quotes `outer`; where it ends."""
        depth = 0
        self._fields += 1
        while at < len(self._source) and self._fields <= _MAX_FIELDS:
            char = self._source[at]
            if (start := _STRING.match(self._source, at)) is not None:
                at = self._string(start, outer)
                continue
            if char == "#":
                at = self._source.find("\n", at)
                if at < 0:
                    return len(self._source)
            elif outer and char in "([{":
                depth += 1
            elif outer and char in ")]}":
                if not depth:
                    self._fields -= 1
                    return at + 1
                depth -= 1
            elif outer and char == ":" and not depth:
                at = self._text(at + 1, outer, raw=True, is_format=True)
                self._fields -= 1
                return at
            at += 1
        return len(self._source)

    def _string(self, start: re.Match[str], outer: tuple[str, ...]) -> int:
        prefix, quotes = (start[1] or "").lower(), start[2]
        used = quotes
        if any(other in quotes for other in outer):
            used = _OTHER[quotes[0]] * len(quotes)
        known = len(self.edits)
        inner = (*outer, used) if "f" in prefix else outer
        end = self._text(
            start.end(),
            inner,
            raw="r" in prefix,
            quotes=quotes,
            has_fields="f" in prefix,
            in_field=bool(outer),
        )
        if used != quotes:
            self.edits[known:known] = [Edit(start.start(2), used), Edit(end - len(quotes), used)]
        return end

    def _text(
        self,
        at: int,
        outer: tuple[str, ...],
        *,
        raw: bool,
        quotes: str = "",
        has_fields: bool = True,
        in_field: bool = False,
        is_format: bool = False,
    ) -> int:
        """Scan the text of a string, or the format of a field; where it ends."""
        source = self._source
        while at < len(source):
            if quotes and source.startswith(quotes, at):
                return at + len(quotes)
            char = source[at]
            if char == "\\":
                if in_field:
                    self.edits.append(Edit(at, " "))
                at += 2 if not raw or quotes else 1
                continue
            if has_fields and char == "{":
                if not is_format and source.startswith("{{", at):
                    at += 2
                    continue
                at = self.code(at + 1, outer)
                continue
            if is_format and char == "}":
                return at + 1
            if char == "\n" and len(quotes) < 3:
                return at
            at += 1
        return at
