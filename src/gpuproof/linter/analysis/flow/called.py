"""The calls that run when code runs: those in it, and those of the project's functions that it calls."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from gpuproof.linter.analysis.flow.call_targets import Definition, find_method
from gpuproof.linter.analysis.flow.sources import class_of, targets
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode, callee_name

MAX_FUNCTIONS = 60
_RUNNERS = frozenset({"run", "experimental_run_v2", "checkpoint"})
"""Functions that run their first argument: `strategy.run(train_step, args=(batch,))`."""
_RUN_AS_OBJECT = ("__call__", "forward", "call")


def calls_within_program(module: Module, around: ast.AST) -> Iterator[tuple[Module, ast.Call]]:
    """The calls that may run when a node runs, its own first."""
    for call in own_calls(module, around):
        yield module, call
    for function in called_functions(module, around):
        for call in own_calls(*function):
            yield function.module, call


def called_functions(module: Module, around: ast.AST) -> list[Definition]:
    """The functions and methods of the project that a node calls, directly or not; `MAX_FUNCTIONS` at most."""
    found: dict[ast.AST, Definition] = {}
    pending = [(module, call) for call in own_calls(module, around)]
    for here, call in pending:
        for target in _callees(here, call):
            if target.node not in found and len(found) < MAX_FUNCTIONS:
                found[target.node] = target
                pending += [(target.module, inner) for inner in own_calls(*target)]
    return list(found.values())


def own_calls(module: Module, around: ast.AST) -> list[ast.Call]:
    """The calls inside a node, without those of functions that it only defines."""
    index = module.derived(_CallsByFunction)
    if isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return index.calls.get(around, [])
    function = module.function_of(around)
    return [call for call in index.calls.get(function, []) if module.tree.is_within(call, around)]


def _callees(module: Module, call: ast.Call) -> list[Definition]:
    """The functions that a call runs: also `__init__` of a class, and `forward` of an object that is called."""
    memo = module.derived(_Callees).found
    if call in memo:
        return memo[call]
    found: list[Definition] = []
    run = [call.func]
    if call.args and callee_name(call) in _RUNNERS:
        run.append(call.args[0])
    for target in (target for function in run for target in targets(module, function)):
        if isinstance(target.node, ast.ClassDef):
            initializer = find_method(target, "__init__")
            found += [initializer] if initializer is not None else []
        else:
            found.append(target)
    if not found and isinstance(call.func, (ast.Name, ast.Attribute)) and module.qualified(call.func) is None:
        owner = class_of(module, call.func)
        methods = (find_method(owner, name) for name in _RUN_AS_OBJECT) if owner is not None else ()
        found += [method for method in methods if method is not None][:1]
    memo[call] = found
    return found


class _Callees:
    def __init__(self, _: Module) -> None:
        self.found: dict[ast.Call, list[Definition]] = {}


class _CallsByFunction:
    """The calls of a module by the function that contains them; None for its top level."""

    def __init__(self, module: Module) -> None:
        self.calls: dict[FunctionNode | None, list[ast.Call]] = defaultdict(list)
        for call in module.nodes(ast.Call):
            self.calls[module.function_of(call)].append(call)
