"""Functions that a program defines and never uses, whose code says nothing about what the program does."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.references import references
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.knowledge.contract.inference_handlers import PARAMETERS
from gpuproof.linter.knowledge.distribution.entries import is_program


def used_calls(module: Module, calls: Iterable[Call]) -> list[Call]:
    """Those of a module's calls that are not in a function which the program never uses."""
    unused = module.derived(_unused_functions)
    return [call for call in calls if not module.tree.is_within_any(call.node, unused)]


def used_code(module: Module) -> list[ast.AST]:
    """The top-level statements of a module, without the functions that the program never uses."""
    unused = module.derived(_unused_functions)
    return (
        [statement for statement in module.tree.root.body if statement not in unused]
        if unused
        else [module.tree.root]
    )


def _unused_functions(module: Module) -> frozenset[ast.AST]:
    # `fire.Fire()` calls every function of the file by its name.
    if module.imports("fire"):
        return frozenset()
    is_script = is_program(module)
    return frozenset(
        statement
        for statement in module.tree.root.body
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (is_script or statement.name.startswith("_"))
        and _is_unused(module, statement)
    )


def _is_unused(module: Module, function: FunctionNode) -> bool:
    """Whether a function needs arguments that nothing passes, and the program does not mention its name otherwise."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    if (
        len(parameters) <= len(function.args.defaults)
        or function.decorator_list
        or function.name in PARAMETERS
    ):
        return False
    if references(Definition(module, function)):
        return False
    # `getattr(module, "name")`, `__all__`, and the settings of a registry.
    return not any(
        isinstance(node.value, str) and function.name in node.value
        for other in program_modules(module, function.name)
        for node in other.nodes(ast.Constant)
        if not isinstance(other.parent(node), ast.Expr)
    )
