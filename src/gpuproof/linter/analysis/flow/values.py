"""The value of an expression through the whole program: what the callers of its function pass, what its object stores."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import UNKNOWN, Value, one_of


def program_value(module: Module, node: ast.expr | None) -> Value:
    """The value of an expression, known if every caller of its function passes known values.

    `evaluate` knows a parameter by its default at most; here the calls decide.
    """
    value = evaluate(module, node)
    if node is None or value.is_known:
        return value
    if isinstance(node, ast.Subscript) and value.is_unknown:
        return _entry(module, node)
    traced = sources(module, node)
    if not traced.found or any(source.node is node for source in traced.found):
        return value
    found = one_of(evaluate(source.module, source.node) for source in traced.found)
    if not found.options:
        return value
    return (found if traced.complete else found.as_default()).with_span(value.span)


def _entry(module: Module, node: ast.Subscript) -> Value:
    """An entry of a mapping that the callers pass, which the function does not change."""
    key = evaluate(module, node.slice)
    if not key.is_known or not isinstance(key.value, (str, int)) or _is_changed(module, node.value):
        return UNKNOWN
    holder = program_value(module, node.value)
    if holder.entries is None or key.value not in holder.entries:
        return UNKNOWN
    found = holder.entries[key.value]
    return found if holder.is_known else found.as_default()


def _is_changed(module: Module, holder: ast.expr) -> bool:
    """Whether code of the function assigns an entry of a mapping, or calls a method that may change it."""
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    if not isinstance(holder, ast.Name):
        return False
    for use in module.tree.uses_of(holder.id):
        parent = module.parent(use)
        if isinstance(parent, ast.Attribute) and parent.attr not in (
            "get",
            "items",
            "keys",
            "values",
            "copy",
        ):
            return True
        while isinstance(parent, ast.Subscript):
            if not isinstance(parent.ctx, ast.Load):
                return True
            parent = module.parent(parent)
    return False
