"""Replaces the source of notebook cells without changing the rest of the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import product
from typing import Any


def replace_cells(raw: bytes, changed: Mapping[int, str]) -> bytes | None:
    """The content of a notebook with new sources for some code cells.

    Args:
        changed: new sources by number of the cell, from 1.

    Returns:
        None if the JSON layout cannot be reproduced byte for byte: a fix must not rewrite the rest of the file.
    """
    text = raw.decode()
    document = json.loads(text)
    style = _style(document, text)
    if style is None:
        return None
    for number, cell in enumerate(_cells(document), 1):
        if number in changed:
            key = "source" if "source" in cell else "input"
            source = changed[number]
            cell[key] = source.splitlines(keepends=True) if isinstance(cell.get(key), list) else source
    return _dump(document, style).encode()


def _cells(document: dict[str, Any]) -> list[dict[str, Any]]:
    cells = document.get("cells")
    if cells is None:
        cells = [cell for sheet in document.get("worksheets", []) for cell in sheet.get("cells") or []]
    return [cell if isinstance(cell, dict) else {} for cell in cells]


_Style = tuple[int | None, bool, tuple[str, str], bool, str]


def _style(document: dict[str, Any], text: str) -> _Style | None:
    """The JSON layout of the file, if it is that of Jupyter, VS Code, Colab or json.dumps; else None."""
    indents: tuple[int | None, ...] = (1, 2, 4, None)
    separators = ((",", ": "), (", ", ": "), (",", ":"))
    end = "\n" if text.endswith("\n") else ""
    for indent, ascii_only, separator, sort in product(indents, (False, True), separators, (False, True)):
        style = (indent, ascii_only, separator, sort, end)
        if _dump(document, style) == text:
            return style
    return None


def _dump(document: dict[str, Any], style: _Style) -> str:
    indent, ascii_only, separators, sort, end = style
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only, separators=separators, sort_keys=sort)
    return text + end
