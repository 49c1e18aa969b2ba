"""Tables and paragraphs as HTML, for notebooks. All text is escaped; there are no scripts and no style sheets."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from gpuproof.terminal.table import Block, Table

_MOST_LINES = 50
"""Lines of a folded list; the others are counted."""


def blocks_html(blocks: Iterable[Block]) -> str:
    """Paragraphs and tables; an empty paragraph only separates lines of text."""
    return "".join(
        table_html(block)
        if isinstance(block, Table)
        else f'<div style="white-space:pre-wrap">{_escape(block)}</div>'
        for block in blocks
        if block
    )


def table_html(table: Table) -> str:
    """A table with its headers."""
    head = "".join(
        f'<th style="{_style(table, column)}">{_escape(text)}</th>'
        for column, text in enumerate(table.headers)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="{_style(table, column)}">{_linked(text)}</td>' for column, text in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def labelled_html(title: str, rows: Iterable[tuple[str, str]]) -> str:
    """A title over rows of a label and a text; a text that is one link can be clicked."""
    style = "text-align:left;vertical-align:top;white-space:pre-wrap"
    body = "".join(
        f'<tr><th style="{style}">{_escape(label)}</th><td style="{style}">{_linked(text)}</td></tr>'
        for label, text in rows
    )
    return f'<table><caption style="text-align:left"><b>{_escape(title)}</b></caption>{body}</table>'


def folded_html(title: str, lines: Sequence[str]) -> str:
    """Lines that are shown when the title is clicked."""
    shown = [
        *lines[:_MOST_LINES],
        *([f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []),
    ]
    return f"<details><summary>{_escape(title)}</summary>{preformatted_html(chr(10).join(shown))}</details>"


def preformatted_html(text: str) -> str:
    """A text whose characters keep their places."""
    return f"<pre>{_escape(text)}</pre>"


def _style(table: Table, column: int) -> str:
    align = "right" if column in table.right else "left"
    if column in table.code:
        return f"text-align:{align};vertical-align:top;white-space:pre;font-family:monospace"
    return f"text-align:{align};vertical-align:top;white-space:{'pre-wrap' if column in table.paragraphs else 'nowrap'}"


def _linked(text: str) -> str:
    escaped = _escape(text)
    is_link = text.startswith("https://") and not any(character.isspace() for character in text)
    return f'<a href="{escaped}" target="_blank">{escaped}</a>' if is_link else escaped


def _escape(text: str) -> str:
    return html.escape(text)
