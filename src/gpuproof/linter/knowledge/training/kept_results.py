"""Lists and totals that keep results of a model with their graphs, and whether something empties a list."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.flow.call_sites import known_call_sites
from gpuproof.linter.analysis.flow.call_targets import Definition, returned_values
from gpuproof.linter.analysis.flow.repeats import is_repeated, trains
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.types.libraries import is_part_class
from gpuproof.linter.knowledge.training.gradients import carries_graph, is_off, returns_output
from gpuproof.linter.knowledge.unused_functions import used_calls


def kept_results(module: Module) -> Iterator[Call]:
    """Results of a model that a list keeps with their graphs, in loops in which no backward frees anything."""
    for call in calls_named(module, "append"):
        kept = call.receiver
        value = call.node.args[0] if len(call.node.args) == 1 else None
        if not isinstance(kept, ast.Name) or value is None or not module.loops_around(call.node):
            continue
        if not carries_graph(module, value) or is_off(module, call.node) or is_emptied(module, kept, call):
            continue
        function, owner = module.function_of(call.node), module.enclosing(call.node, ast.ClassDef)
        if owner is not None and is_part_class(module, owner):
            continue  # what a part of a model keeps lives as long as the step
        # Something may be differentiated after the loop.
        if any(
            module.function_of(other.node) is function
            for other in calls_named(module, "backward", "grad", "step")
        ) or trains(module, function or module.tree.root):
            continue
        if function is not None and any(
            trains(site.module, site.module.function_of(site.call) or site.module.tree.root)
            for site in known_call_sites(module, function)
            if _flows_on(module, function)
        ):
            continue
        if not _ends_detached(module, kept, function):
            continue
        yield call


def kept_losses(module: Module) -> Iterator[Call]:
    """The calls that append to a list what a training step of the project returns, with its graph."""
    for call in calls_named(module, "append"):
        value = call.node.args[0] if len(call.node.args) == 1 else None
        kept = call.receiver
        if not isinstance(value, ast.Call) or not isinstance(kept, (ast.Name, ast.Attribute)):
            continue
        if (
            not returns_output(module, value)
            or not trains(module, value)
            or not is_repeated(module, call.node)
        ):
            continue
        if not is_emptied(module, kept, call) and not is_off(module, call.node):
            yield call


def _flows_on(module: Module, function: FunctionNode) -> bool:
    return bool(returned_values(Definition(module, function)))


def _ends_detached(module: Module, kept: ast.Name, function: FunctionNode | None) -> bool:
    """Whether the list is not returned, or nothing of the program trains."""
    if not any(
        used_calls(other, calls_named(other, "backward", "grad")) for other in program_modules(module)
    ):
        return True
    uses_ = [use for use in module.tree.uses_of(kept.id) if module.function_of(use) is function]
    return bool(uses_) and not any(module.enclosing(use, ast.Return) is not None for use in uses_)


def is_emptied(module: Module, kept: ast.expr, call: Call) -> bool:
    """Whether the list has a limit, or is emptied or replaced where it would grow."""
    text = module.text(kept)
    emptying = calls_named(module, "clear", "pop", "popleft")
    if any(module.text(other.receiver) == text for other in emptying if other.receiver is not None):
        return True
    made = origin_call(module, kept)
    if made is not None and made.method == "deque":
        return True
    around = module.loops_around(call.node)[:1] or [module.enclosing(call.node, ast.ClassDef)]
    replaced = [
        node
        for node in module.nodes(ast.Assign, ast.Delete)
        if any(
            module.text(target) in (text, text.partition("[")[0])
            or module.text(target).partition("[")[0] == text
            for target in node.targets
        )
    ]
    return any(
        scope is not None
        and module.tree.is_within(node, scope)
        and getattr(module.function_of(node), "name", "") not in ("__init__", "setup")
        for node in replaced
        for scope in around
    )


def sums(module: Module) -> Iterator[tuple[ast.stmt, ast.expr, ast.expr]]:
    """Statements that add to a total, the total, and what they add: `total += loss`, `total = total + loss`."""
    for statement in module.nodes(ast.AugAssign):
        if isinstance(statement.op, ast.Add) and is_place(statement.target):
            yield statement, statement.target, statement.value
    for statement in module.nodes(ast.Assign):
        target, value = statement.targets[0], statement.value
        if not is_place(target) or not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Add):
            continue
        for total, added in ((value.left, value.right), (value.right, value.left)):
            if module.text(total) == module.text(target):
                yield statement, target, added
                break


def is_place(node: ast.expr) -> bool:
    """Whether an expression names one place: a variable, an attribute, or an entry such as `totals["loss"]`."""
    return isinstance(node, (ast.Name, ast.Attribute)) or (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, (ast.Name, ast.Attribute))
        and isinstance(node.slice, ast.Constant)
    )
