"""The plan of a script or of a served model for people: its table, what the columns mean, and the recommendation.

`blocks` has paragraphs and tables; `format_plan` shows them as text for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.planning.script_plan import ScriptPlan
from gpuproof.planning.text.columns import fit_options_table, gpu_table
from gpuproof.planning.text.paragraphs import introduction, legend, not_traced, recommendation
from gpuproof.terminal.style import wrap
from gpuproof.terminal.table import Block, Table, render_table, terminal_width

__all__ = ["blocks", "format_plan"]

_WIDEST = 120
"""Characters of a line of text on a wide terminal; tables may be wider."""


def format_plan(plan: ScriptPlan, script: str, width: int | None = None) -> str:
    """Everything that a person needs, in lines.

    Args:
        script: the user's name of it.
        width: characters a line, 0 for no limit; those of the terminal if None.
    """
    width = terminal_width() if width is None else width
    lines: list[str] = []
    for block in blocks(plan, script, width):
        if isinstance(block, Table):
            lines += [render_table(block.headers, block.rows, block.right, width=width)]
        else:
            lines += wrap(block, min(width, _WIDEST), rest="  ") if width and block else [block]
    return "\n".join(lines)


def blocks(plan: ScriptPlan, script: str, width: int = 0) -> Iterator[Block]:
    """Paragraphs and tables.

    Args:
        width: as of `format_plan`.
    """
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
