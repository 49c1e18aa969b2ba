"""Creates edits from syntax nodes, for the fixes of rules; the text around them is unchanged."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.source.edit import Edit
from gpuproof.linter.source.span import Span


def replace_node(module: Module, node: ast.AST, text: str) -> Edit:
    """Replace the source of a node."""
    return Edit(module.span(node), text)


def wrap(module: Module, node: ast.AST, before: str, after: str) -> tuple[Edit, ...]:
    """Insert text before and after a node."""
    span = module.span(node)
    start = Span(span.unit, span.line, span.column, span.line, span.column)
    end = Span(span.unit, span.end_line, span.end_column, span.end_line, span.end_column)
    return Edit(start, before), Edit(end, after)


def add_keyword(call: Call, text: str) -> Edit:
    """Add `keyword=value` after the last argument of a call; on its own line if the last argument has one."""
    module, node = call.module, call.node
    arguments: list[ast.AST] = [*node.args, *node.keywords]
    arguments.sort(key=lambda argument: (getattr(argument, "lineno", 0), getattr(argument, "col_offset", 0)))
    whole = module.span(node)
    if not arguments:
        at = Span(whole.unit, whole.end_line, whole.end_column - 1, whole.end_line, whole.end_column - 1)
        return Edit(at, text)
    last = module.span(arguments[-1])
    at = Span(last.unit, last.end_line, last.end_column, last.end_line, last.end_column)
    own_line = whole.end_line > last.end_line and last.line > whole.line
    if own_line:
        indent = module.unit.lines[last.line - 1][: last.column - 1]
        if not indent.strip():
            return Edit(at, f",\n{indent}{text}")
    return Edit(at, f", {text}")


def remove_keyword(call: Call, name: str) -> Edit | None:
    """Remove a keyword argument and one comma from a call; None if it is not written there."""
    module, node = call.module, call.node
    arguments: list[ast.AST] = [*node.args, *node.keywords]
    arguments.sort(key=lambda argument: (getattr(argument, "lineno", 0), getattr(argument, "col_offset", 0)))
    index = next(
        (
            i
            for i, argument in enumerate(arguments)
            if isinstance(argument, ast.keyword) and argument.arg == name
        ),
        None,
    )
    if index is None:
        return None
    own = module.span(arguments[index])
    if index + 1 < len(arguments):
        following = module.span(arguments[index + 1])
        return Edit(Span(own.unit, own.line, own.column, following.line, following.column), "")
    if index > 0:
        before = module.span(arguments[index - 1])
        return Edit(Span(own.unit, before.end_line, before.end_column, own.end_line, own.end_column), "")
    return Edit(own, "")


def insert_line(module: Module, before: ast.stmt, text: str) -> Edit:
    """Insert a statement on its own line before another, with the same indentation."""
    span = module.span(before)
    line = module.unit.lines[span.line - 1]
    indent = line[: len(line) - len(line.lstrip())]
    at = Span(span.unit, span.line, 1, span.line, 1)
    return Edit(at, f"{indent}{text}\n")
