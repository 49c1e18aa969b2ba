"""The functions of the project that a call runs, with the values of their parameters, and what they return."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import NamedTuple

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.values import UNKNOWN, Value

MAX_FRAMES = 4
"""Calls inside calls that are evaluated."""
_MAX_RETURNS = 4


class CalledFunction(NamedTuple):
    """A function that a call runs, and the expressions that it may return."""

    module: Module
    node: FunctionNode
    returned: list[ast.expr]

    def bind(self, call: ast.Call, evaluate: Callable[[ast.expr], Value]) -> dict[str, Value] | None:
        """The values of the parameters that a call passes; None if it passes unknown ones.

        Parameters that are not passed are missing: their defaults are values of the function's module.
        """
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return None
        parameters = self.node.args
        names = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
        bound = {name: evaluate(argument) for name, argument in zip(names, call.args, strict=False)}
        for keyword in call.keywords:
            if keyword.arg is None:
                return None
            bound[keyword.arg] = evaluate(keyword.value)
        for variadic in (parameters.vararg, parameters.kwarg):
            if variadic is not None:
                bound[variadic.arg] = UNKNOWN
        return bound


def called_function(module: Module, call: ast.Call) -> CalledFunction | None:
    """The function of the project that a call runs by its name; None if it is unknown, decorated or a generator."""
    found = function_of_call(module, call)
    if found is None:
        return None
    owner, node = found
    if isinstance(node, ast.AsyncFunctionDef) or node.decorator_list:
        return None
    returned = owner.derived(_returns).get(node, [])
    if not 0 < len(returned) <= _MAX_RETURNS or any(value is None for value in returned):
        return None
    return CalledFunction(owner, node, [value for value in returned if value is not None])


def function_of_call(module: Module, call: ast.Call) -> tuple[Module, FunctionNode] | None:
    """The function of the project that a call runs by its name, and its module; None if it is unknown."""
    return _own(module, call.func) or _imported(module, call.func)


def assigned_attributes(module: Module) -> set[str]:
    """Attributes that the module assigns on some object other than `self`, or deletes."""
    return {
        node.attr
        for node in module.nodes(ast.Attribute)
        if not isinstance(node.ctx, ast.Load)
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }


def _own(module: Module, function: ast.expr) -> tuple[Module, FunctionNode] | None:
    if not isinstance(function, ast.Name):
        return None
    bindings = module.reaching(function)
    node = bindings[0].node if len(bindings) == 1 else None
    return (module, node) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _imported(module: Module, function: ast.expr) -> tuple[Module, FunctionNode] | None:
    holder, _, name = (module.qualified(function) or "").rpartition(".")
    other = module.loader.imported_module(module, holder) if holder else None
    node = other.functions.get(name) if other is not None else None
    return (other, node) if other is not None and node is not None else None


def _returns(module: Module) -> dict[ast.AST, list[ast.expr | None]]:
    """The values that each function returns; those of a generator are None."""
    found: dict[ast.AST, list[ast.expr | None]] = {}
    for node in module.nodes(ast.Return, ast.Yield, ast.YieldFrom):
        function = module.function_of(node)
        if function is not None:
            found.setdefault(function, []).append(node.value if isinstance(node, ast.Return) else None)
    return found
