"""Parses a rule's docstring: the rationale, and examples that are flagged (`Bad`) or not (`Good`, `Quiet`).

An example is an indented block after a line `Bad:`, `Good:` or `Quiet: why`. `# file: train.py` starts another file;
a line that ends in `# <-` is where a finding is expected. In `.ipynb` files, `# %%` starts another cell. `Fixed:` is
the bad example before it with all fixes applied.
"""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from typing import Literal

ExampleKind = Literal["Bad", "Good", "Quiet", "Fixed"]
_HEAD = re.compile(r"^(Bad|Good|Quiet|Fixed):\s*(.*)$")
_FILE = re.compile(r"^# file: (\S+)$")
_MARK = re.compile(r"\s*(#|//)\s*<-\s*$")
DEFAULT_FILE = "example.py"


@dataclass(frozen=True)
class Example:
    """One example.

    Args:
        kind: whether the rule flags it.
        title: a short description; may be empty.
        files: content by name, as it is checked.
        shown: name and text of each file for display: without marks, and notebooks as cells.
    """

    kind: ExampleKind
    title: str
    files: dict[str, str]
    marked: frozenset[tuple[str, int]]
    shown: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Documentation:
    """The parsed docstring of a rule.

    Args:
        summary: the first paragraph, on one line.
        reason: everything before the first example.
        examples: in the order of the docstring.
    """

    summary: str
    reason: str
    examples: tuple[Example, ...]


def read_documentation(doc: str) -> Documentation:
    """Parse a rule's docstring."""
    reason: list[str] = []
    examples: list[Example] = []
    head: re.Match[str] | None = None
    block: list[str] = []
    for line in [*inspect.cleandoc(doc).splitlines(), "Good:"]:
        match = _HEAD.match(line)
        if match is None:
            (reason if head is None else block).append(line)
            continue
        if head is not None:
            examples.append(_example(head.group(1), head.group(2), block))
        head, block = match, []
    text = "\n".join(reason).strip()
    summary = " ".join(text.partition("\n\n")[0].split())
    return Documentation(summary, text, tuple(examples))


def _example(kind: str, title: str, block: list[str]) -> Example:
    lines = inspect.cleandoc("\n" + "\n".join(block)).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    files: dict[str, list[str]] = {}
    marked: set[tuple[str, int]] = set()
    name = DEFAULT_FILE
    for line in lines:
        if match := _FILE.match(line):
            name = match.group(1)
            files[name] = []
            continue
        content = files.setdefault(name, [])
        if _MARK.search(line):
            marked.add((name, len(content) + 1))
        content.append(_MARK.sub("", line))
    shown = tuple((name, "\n".join(content).strip("\n")) for name, content in files.items())
    texts = {name: _content(name, content) for name, content in files.items()}
    return Example(kind, title, texts, frozenset(marked), shown)  # pyright: ignore[reportArgumentType]


def _content(name: str, lines: list[str]) -> str:
    text = "\n".join(lines) + "\n"
    if not name.endswith(".ipynb"):
        return text
    cells = [part.strip("\n") for part in re.split(r"^# %%.*\n", text, flags=re.MULTILINE)]
    return json.dumps(
        {
            "cells": [
                {"cell_type": "code", "source": cell, "metadata": {}, "outputs": [], "execution_count": None}
                for cell in cells
            ],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    )
