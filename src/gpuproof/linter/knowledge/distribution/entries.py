"""The scripts that run a module, and what they do with ranks: join a process group, train, split their data."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.flow.called import calls_within_program
from gpuproof.linter.analysis.local_imports import local_modules, local_units, program_modules, program_units
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.knowledge.distribution.ranks import process_group_inits

_COUNTED = ("enumerate", "tqdm", "trange", "track", "progress", "islice")


def scripts_with(module: Module) -> list[Module]:
    """The scripts that may run a module: itself, and the project's modules that import it, directly or not.

    A module that others import is no script, unless it does something when it is run.
    """
    users = [other for other in program_modules(module) if module.unit in local_units(other)]
    return [user for user in users if user is not module or len(users) == 1 or is_program(user)]


def is_program(script: Module) -> bool:
    """Whether running a file does something: it calls functions at its top level, or under `__main__`."""
    return script.derived(_is_program)


def program_mentions(module: Module, *words: str) -> bool:
    """Whether a text of the programs that run a module has one of these words: a fast way to skip a module."""
    return module.mentions(*words) or any(
        word in unit.source for unit in program_units(module) for word in words
    )


def group_scripts(module: Module) -> list[Module]:
    """The scripts that run a module, join a process group of PyTorch, and compute gradients."""
    return [script for script in scripts_with(module) if joins_group(script) and computes_gradients(script)]


def joins_group(script: Module) -> bool:
    """Whether a script, or a module of the project that it imports, joins a process group."""
    return script.loader.cached(
        "joins group", script.unit, lambda: any(process_group_inits(home) for home in local_modules(script))
    )


def group_inits(script: Module) -> list[Call]:
    """The calls that join a process group, in the script and the project's modules that it imports."""
    return [call for home in local_modules(script) for call in process_group_inits(home)]


def computes_gradients(script: Module) -> bool:
    """Whether a script, or a module of the project that it imports, calls `backward()`."""
    return script.loader.cached(
        "computes gradients",
        script.unit,
        lambda: any(calls_named(home, "backward") for home in local_modules(script)),
    )


def training_loops(module: Module) -> list[ast.For]:
    """The innermost loops of a module in which gradients are computed, directly or in what they call."""
    return module.derived(_training_loops)


def epoch_loops(module: Module) -> list[ast.For]:
    """The loops over epochs of a module in which gradients are computed, directly or in what they call."""
    return [loop for loop in module.nodes(ast.For) if _is_over_epochs(module, loop) and _trains(module, loop)]


def iterated(module: Module, node: ast.expr) -> ast.expr:
    """What a loop reads, without `enumerate`, progress bars and the like."""
    for _ in range(6):
        if isinstance(node, ast.Name):
            made = module.origin(node)
            if not isinstance(made, ast.Call) or callee_name(made) not in _COUNTED:
                return node
            node = made
        if isinstance(node, ast.Call) and callee_name(node) in _COUNTED and node.args:
            node = node.args[0]
        else:
            return node
    return node


def _is_program(script: Module) -> bool:
    for statement in script.tree.root.body:
        if isinstance(statement, ast.If) and "__main__" in script.text(statement.test):
            return True
        if isinstance(statement, (ast.Expr, ast.For, ast.With)) and any(
            isinstance(node, ast.Call) for node in ast.walk(statement)
        ):
            return True
    return False


def _training_loops(module: Module) -> list[ast.For]:
    loops = [loop for loop in module.nodes(ast.For) if _trains(module, loop)]
    return [
        loop
        for loop in loops
        if not any(other is not loop and module.tree.is_within(other, loop) for other in loops)
    ]


def _trains(module: Module, around: ast.AST) -> bool:
    return any(_is_backward(call) for _, call in calls_within_program(module, around))


def _is_backward(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "backward"


def _is_over_epochs(module: Module, loop: ast.For) -> bool:
    """Whether a loop iterates over epochs, and not certainly over a single one."""
    counted = next(_ranges(module, loop.iter), None)
    if counted is None:
        return False
    texts = (module.text(loop.target), *(module.text(argument) for argument in counted.node.args))
    if not any("epoch" in text.lower() for text in texts):
        return False
    last = counted.argument(None, 1 if len(counted.node.args) > 1 else 0)
    return last.number is None or last.number > 1


def _ranges(module: Module, node: ast.expr) -> Iterator[Call]:
    """The `range()` that a loop counts through."""
    made = module.origin(node)
    if not isinstance(made, ast.Call):
        return
    if callee_name(made) in ("range", "trange"):
        yield Call(made, module)
    elif callee_name(made) in _COUNTED and made.args:
        yield from _ranges(module, made.args[0])
