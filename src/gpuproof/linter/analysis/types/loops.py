"""What a loop iterates over, and which of its variables is the whole item."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding


@dataclass(frozen=True)
class Iterated:
    """An iterated expression.

    Args:
        counted: whether `enumerate` adds a counter.
    """

    value: ast.expr | None
    counted: bool = False


def find_iterated(module: Module, node: ast.expr | None) -> Iterated:
    """The iterated expression in `enumerate(tqdm(loader))`."""
    counted = False
    for _ in range(4):
        made = module.origin(node)
        if not isinstance(made, ast.Call) or not made.args:
            break
        name = (
            module.qualified(made.func) or (made.func.id if isinstance(made.func, ast.Name) else "")
        ).split(".")[-1]
        if name not in ("enumerate", "tqdm", "trange", "iter", "track"):
            break
        counted = counted or name == "enumerate"
        node = made.args[0]
    return Iterated(node, counted)


def is_direct(module: Module, binding: Binding) -> bool:
    """Whether a name is an item of the loop's own tuple: `batch` of `for i, batch in`, not `x` of `for i, (x, y) in`."""
    parent = module.parent(binding.node)
    return isinstance(parent, (ast.Tuple, ast.List)) and isinstance(
        module.parent(parent), (ast.For, ast.AsyncFor)
    )
