"""Links codes in the text of pages to their own pages: `DS101` and `D410`, and in code spans the errors of `explain`."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping

from site_source.links import outside_code

_CODE = re.compile(r"(?<![\w/.#-])([A-Z]{1,2}\d{3})(?![\w/.-]*[\w/])")
_SPAN = re.compile(r"`([\w.-]+)`")
_LINK_OR_HEADING = re.compile(
    r"!?\[[^\]\n]*(?:\[[^\]\n]*\][^\]\n]*)*\]\([^)]*\)|^#+ .*$|<[^>]*>", re.MULTILINE
)
_FENCE = re.compile(r"^(`{3,}).*?^\1`*\s*?$", re.MULTILINE | re.DOTALL)


def link_codes(text: str, pages: Mapping[str, str], page: str) -> str:
    """Link the codes that a page mentions outside headings, links and blocks of code.

    Args:
        pages: the page of each code.
        page: the page on which the text is; its own code is not linked.
    """

    def linked(code: re.Match[str]) -> str:
        target = pages.get(code[1], page)
        if target == page:
            return code[0]
        return f"[{code[0]}]({posixpath.relpath(target, posixpath.dirname(page) or '.')})"

    text = _outside(
        _FENCE, text, lambda part: _outside(_LINK_OR_HEADING, part, lambda rest: _SPAN.sub(linked, rest))
    )
    return outside_code(
        text, lambda part: _outside(_LINK_OR_HEADING, part, lambda rest: _CODE.sub(linked, rest))
    )


def _outside(hidden: re.Pattern[str], text: str, change: Callable[[str], str]) -> str:
    """Change what lies between the matches of a pattern."""
    parts: list[str] = []
    position = 0
    for match in hidden.finditer(text):
        parts += (change(text[position : match.start()]), match[0])
        position = match.end()
    return "".join((*parts, change(text[position:])))
