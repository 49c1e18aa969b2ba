"""The steps of PyTorch training loops: optimizers and schedulers by what is called on them."""

from __future__ import annotations

import ast
import re

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.types import TypeKind, type_of

_SCHEDULER = re.compile(r"(^|[_.])(lr_)?sched(uler)?s?$|lr_?sched", re.IGNORECASE)
_OPTIMIZER = re.compile(
    r"(^|[_.])(opt|optim|optimizer|optimiser)s?($|[_.\d])|(optim|optimizer|optimiser|^opt_\w+)$",
    re.IGNORECASE,
)
_SCALER = re.compile(r"scaler$", re.IGNORECASE)


def stepped_optimizer(step: Call) -> ast.expr | None:
    """The optimizer of `optimizer.step()` or `scaler.step(optimizer)`, by its type or by its name; None for others."""
    module, receiver = step.module, step.receiver
    if receiver is None or step.method != "step":
        return None
    if step.node.args and _SCALER.search(module.text(receiver)):
        receiver = step.node.args[0]
    elif step.node.args:
        return None
    if not isinstance(receiver, (ast.Name, ast.Attribute)):
        return None
    if type_of(module, receiver).kind is TypeKind.OPTIMIZER:
        return receiver
    text = module.text(receiver)
    return receiver if _OPTIMIZER.search(text) and not _SCHEDULER.search(text) else None


def stepped_schedulers(step: Call) -> list[Call] | None:
    """The calls that may have created the scheduler of `scheduler.step()`; None if it is no scheduler of PyTorch.

    The list is empty if only the name says that it is one.
    """
    receiver = step.receiver
    if step.method != "step" or not isinstance(receiver, (ast.Name, ast.Attribute)):
        return None
    made = creations(step.module, receiver)
    if made:
        names = [call.name or "" for call in made]
        return made if all(name.startswith("torch.optim.lr_scheduler.") for name in names) else None
    return [] if _SCHEDULER.search(step.module.text(receiver)) else None


_LOADER = re.compile(
    r"(^|[._])(data_?)?(loader|batches|dataloader)s?($|[._\d])|loader$|_dl$|^dl$", re.IGNORECASE
)
_WRAPPERS = frozenset(
    {"enumerate", "tqdm", "trange", "zip", "track", "islice", "ProgressBar", "log_every", "iter"}
)


def is_batch_loop(module: Module, loop: ast.AST) -> bool:
    """Whether a loop runs over the batches of a loader, by the loader's type or name."""
    node = getattr(loop, "iter", None)
    for _ in range(4):
        if isinstance(node, ast.Call) and callee_name(node) in _WRAPPERS and node.args:
            node = node.args[0]
    return node is not None and is_loader(module, node)


def is_loader(module: Module, node: ast.expr) -> bool:
    """Whether an expression is a loader of batches, by its type or name."""
    if type_of(module, node).kind is TypeKind.LOADER:
        return True
    return isinstance(node, (ast.Name, ast.Attribute)) and _LOADER.search(module.text(node)) is not None


def counted_condition(module: Module, branch: ast.If) -> ast.expr | None:
    """The condition of an `if` that holds for every n-th batch, such as `(i + 1) % n == 0`; None for others.

    Other conditions that are joined with `or`, such as the last batch, do not matter; a divisor of 1 is no accumulation.
    """
    tests = branch.test.values if isinstance(branch.test, ast.BoolOp) else [branch.test]
    for test in tests:
        match test:
            case (
                ast.Compare(
                    left=ast.BinOp(op=ast.Mod(), right=divisor),
                    ops=[ast.Eq()],
                    comparators=[ast.Constant() | ast.BinOp()],
                )
                | ast.UnaryOp(op=ast.Not(), operand=ast.BinOp(op=ast.Mod(), right=divisor))
            ):
                if evaluate(module, divisor).number != 1:
                    return branch.test
            case _:
                continue
    return None
