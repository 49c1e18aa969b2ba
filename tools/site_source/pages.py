"""`Page`, one source file of the site, and the Markdown that several generated pages need."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Page(NamedTuple):
    """One Markdown page of the site.

    Attributes:
        path: below the folder of sources, such as `cli/run.md`.
        text: Markdown. Relative links lead from `source`, as on GitHub; those of a generated page from `docs/`.
        source: the file in the repository; empty for a generated page.
        hide: parts of the page's layout that it does without: `navigation`, `toc`.
    """

    path: str
    text: str
    source: str = ""
    hide: tuple[str, ...] = ()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(_cell(value) for value in line)} |\n" for line in lines)


def filterable(markdown_table: str, label: str) -> str:
    """A table with a field that filters its rows and headings that sort them (`site/assets/tables.js`)."""
    return f'<div class="gp-table" data-label="{html.escape(label)}" markdown>\n\n{markdown_table}\n</div>\n'


def code_block(text: str, language: str = "text") -> str:
    """A fenced block, with a fence that the text does not contain."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"


def plain(text: str) -> str:
    """A sentence of a message as Markdown: its characters stand for themselves, except for spans of code."""
    parts = re.split(r"(`[^`]+`)", text)
    return "".join(
        part if index % 2 else re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", part)
        for index, part in enumerate(parts)
    )


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text).replace("\n", " ")
