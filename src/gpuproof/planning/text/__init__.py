"""The plan of a script or of a served model for people: its table, what the columns mean, and the recommendation.

`blocks` has paragraphs and tables; `format_plan` shows them as text for a terminal, `plan_html` as HTML for a notebook.
"""

from __future__ import annotations

import html
from collections.abc import Iterator

from gpuproof.planning.script_plan import ScriptPlan
from gpuproof.planning.text.columns import Table, fit_options_table, gpu_table
from gpuproof.planning.text.paragraphs import introduction, legend, not_traced, recommendation
from gpuproof.terminal.style import wrap
from gpuproof.terminal.table import render_table, terminal_width

__all__ = ["format_plan", "plan_html"]

_WIDEST = 120
"""Characters of a line of text on a wide terminal; tables may be wider."""
_CELL = "text-align:{};white-space:nowrap"


def format_plan(plan: ScriptPlan, script: str, width: int | None = None) -> str:
    """Everything that a person needs, in lines.

    Args:
        script: the user's name of it.
        width: characters a line, 0 for no limit; those of the terminal if None.
    """
    width = terminal_width() if width is None else width
    lines: list[str] = []
    for block in _blocks(plan, script, width):
        if isinstance(block, Table):
            lines += [render_table(block.headers, block.rows, block.right, width=width)]
        else:
            lines += wrap(block, min(width, _WIDEST), rest="  ") if width and block else [block]
    return "\n".join(lines)


def plan_html(plan: ScriptPlan, script: str) -> str:
    """The same as HTML."""
    parts: list[str] = []
    for block in _blocks(plan, script, 0):
        if isinstance(block, Table):
            parts.append(_table_html(block))
        elif block:
            parts.append(f"<div>{html.escape(block)}</div>")
    return "".join(parts)


def _blocks(plan: ScriptPlan, script: str, width: int) -> Iterator[str | Table]:
    """Paragraphs and tables; an empty text separates them."""
    table = gpu_table(plan, width)
    yield from introduction(plan, script)
    yield ""
    yield table
    yield ""
    yield from legend(plan, table)
    yield ""
    if plan.advice:
        yield from (advice.text for advice in plan.advice)
        yield ""
    if plan.fit_options is not None:
        yield from fit_options_table(plan.fit_options)
        yield from not_traced(plan.fit_options)
        yield ""
    yield from recommendation(plan)


def _table_html(table: Table) -> str:
    def row(cells: tuple[str, ...], tag: str) -> str:
        return "".join(
            f'<{tag} style="{_CELL.format("right" if column in table.right else "left")}">{html.escape(cell)}</{tag}>'
            for column, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{row(cells, 'td')}</tr>" for cells in table.rows)
    return f"<table><thead><tr>{row(table.headers, 'th')}</tr></thead><tbody>{body}</tbody></table>"
