"""Formats `--help`: paragraphs are filled, and lines of examples are wrapped so that they can still be pasted."""

from __future__ import annotations

import argparse
import re
import textwrap
from collections.abc import Iterator
from itertools import groupby

_WIDEST = 100
"""Characters of a line of prose on a wide terminal."""
_WORD = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+"""
"""A word of a shell command."""


class HelpFormatter(argparse.HelpFormatter):
    """Fills each paragraph of a description, and keeps indented lines, which are examples, apart."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = textwrap.dedent(text).strip().splitlines()
        filled: list[str] = []
        for kind, group in groupby(lines, key=_kind):
            if kind == "prose":
                filled += textwrap.wrap(" ".join(group), min(width, _WIDEST), break_on_hyphens=False)
            elif kind == "example":
                filled += [part for line in group for part in _example(line, width)]
            else:
                filled.append("")
        return "\n".join(indent + line for line in filled)


def _kind(line: str) -> str:
    if not line.strip():
        return "blank"
    return "example" if line.startswith(" ") else "prose"


def _example(line: str, width: int) -> Iterator[str]:
    """The lines of a command, with its comment below it and a backslash where it is continued."""
    if len(line) <= width:
        yield line
        return
    indent = line[: len(line) - len(line.lstrip())]
    command, *comment = re.split(r"\s{2,}", line.strip(), maxsplit=1)
    parts = _lines_of_words(re.findall(_WORD, command), width - len(indent) - 6)
    for number, part in enumerate(parts):
        end = " \\" if number < len(parts) - 1 else ""
        yield f"{indent}{'    ' if number else ''}{part}{end}"
    for text in comment:
        yield from textwrap.wrap(
            text, width, initial_indent=f"{indent}    ", subsequent_indent=f"{indent}    "
        )


def _lines_of_words(words: list[str], width: int) -> list[str]:
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and len(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
