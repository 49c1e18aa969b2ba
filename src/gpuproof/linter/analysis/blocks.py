"""The order of statements: the block that holds two nodes, and whether a node always runs when its block does."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpuproof.linter.analysis.module import Module

_FIELDS = ("body", "orelse", "finalbody", "handlers")


class Positions(NamedTuple):
    """Where two nodes are in the innermost block that contains both.

    Attributes:
        block: the statements of the block.
        first, second: the indices of the statements that contain them.
    """

    block: list[ast.stmt]
    first: int
    second: int


def block_of(module: Module, node: ast.AST) -> list[ast.stmt]:
    """The list of statements that a node's statement belongs to; empty if there is none."""
    statement = module.tree.statement(node)
    parent = module.parent(statement) if statement is not None else None
    for field in _FIELDS:
        block = getattr(parent, field, None)
        if isinstance(block, list) and statement in block:
            return block  # pyright: ignore[reportUnknownVariableType]
    return []


def positions(module: Module, first: ast.AST, second: ast.AST) -> Positions | None:
    """The innermost block around two nodes of one function, and their places in it; None if they share none."""
    chain = {id(block): (block, index) for block, index in _blocks(module, first)}
    for block, index in _blocks(module, second):
        if id(block) in chain:
            return Positions(block, chain[id(block)][1], index)
    return None


def always_runs_in(module: Module, node: ast.AST, block: list[ast.stmt]) -> bool:
    """Whether a node runs exactly once each time a block around it runs: through `with` alone."""
    statement = module.tree.statement(node)
    while statement is not None:
        if statement in block:
            return True
        parent = module.parent(statement)
        if not isinstance(parent, (ast.With, ast.AsyncWith)):
            return False
        statement = parent
    return False


def _blocks(module: Module, node: ast.AST) -> list[tuple[list[ast.stmt], int]]:
    """The blocks around a node up to its function, the innermost first, and the index of the statement that contains it."""
    found: list[tuple[list[ast.stmt], int]] = []
    statement = module.tree.statement(node)
    while statement is not None:
        block = block_of(module, statement)
        if block:
            found.append((block, block.index(statement)))
        parent = module.parent(statement)
        if not isinstance(parent, (ast.stmt, ast.ExceptHandler, ast.match_case)) or isinstance(
            parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        ):
            break
        while parent is not None and not isinstance(parent, ast.stmt):
            parent = module.parent(parent)
        statement = parent
    return found
