"""The value of an expression through the whole program: what the callers of its function pass, what its object stores."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.sources import sources
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.values import Value, one_of


def program_value(module: Module, node: ast.expr | None) -> Value:
    """The value of an expression, known if every caller of its function passes known values.

    `evaluate` knows a parameter by its default at most; here the calls decide.
    """
    value = evaluate(module, node)
    if node is None or value.is_known:
        return value
    traced = sources(module, node)
    if not traced.found or any(source.node is node for source in traced.found):
        return value
    found = one_of(evaluate(source.module, source.node) for source in traced.found)
    if not found.options:
        return value
    return (found if traced.complete else found.as_default()).with_span(value.span)
