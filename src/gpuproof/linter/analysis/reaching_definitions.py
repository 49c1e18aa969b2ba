"""Reaching definitions: the bindings of a name that may be in effect where it is used."""

from __future__ import annotations

import ast
from bisect import bisect_right
from itertools import takewhile

from gpuproof.linter.analysis.scopes import Binding, Names
from gpuproof.linter.analysis.syntax_index import SyntaxIndex

MAX_FOUND = 100
"""With more bindings that may reach a use, nothing is known: all of them are returned."""


def reaching(tree: SyntaxIndex, names: Names, name: str, at: ast.AST) -> list[Binding]:
    """The bindings that may reach a use of a name; empty if nothing in the module binds it.

    In a function that uses a name of an outer scope, every binding of that name may be in effect. In the same scope,
    these are the last binding before the use that always runs, the conditional bindings after it, and bindings later
    in a loop around both.
    """
    bindings = names.visible(name, at)
    if len(bindings) < 2:
        return bindings
    if names.scope(at) is not bindings[0].scope:
        return bindings
    path = _path(tree, at)
    here = (getattr(at, "lineno", 0), getattr(at, "col_offset", 0))
    loops = [node for node in path if isinstance(node, (ast.For, ast.AsyncFor, ast.While))]
    # The target of a `for` is bound anew at each turn: what its body assigned before does not reach the next one.
    carrying = list(takewhile(lambda loop: not _binds(loop, name), loops))
    # Bindings are sorted by line: those after the loops around the use cannot reach it.
    last = max((loop.end_lineno or 0 for loop in loops), default=here[0])
    found: list[Binding] = []
    for index in range(bisect_right(bindings, last, key=_line) - 1, -1, -1):
        binding = bindings[index]
        if _effective_from(tree, binding) > here:
            if carrying and _is_in_one_of(tree, binding.node, carrying):
                found.append(binding)
        else:
            found.append(binding)
            if _always_runs(tree, binding, path):
                break
        if len(found) > MAX_FOUND:
            return bindings
    return list(reversed(found)) or bindings


def _binds(loop: ast.For | ast.AsyncFor | ast.While, name: str) -> bool:
    """Whether a name is a target of a loop."""
    if isinstance(loop, ast.While):
        return False
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(loop.target))


def _path(tree: SyntaxIndex, node: ast.AST) -> dict[ast.AST, ast.AST]:
    """Each ancestor of a node, with its child on the path to the node."""
    path: dict[ast.AST, ast.AST] = {}
    child = node
    for ancestor in tree.ancestors(node):
        path[ancestor] = child
        child = ancestor
    return path


def _effective_from(tree: SyntaxIndex, binding: Binding) -> tuple[int, int]:
    """Where a binding takes effect: after its statement; for names of `for` and `with`, at the name."""
    if binding.kind in ("assign", "unpack", "augmented"):
        statement = tree.statement(binding.node)
        if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            return statement.end_lineno or 0, statement.end_col_offset or 0
    return getattr(binding.node, "lineno", 0), getattr(binding.node, "col_offset", 0)


def _always_runs(tree: SyntaxIndex, binding: Binding, path: dict[ast.AST, ast.AST]) -> bool:
    if binding.kind == "parameter":
        return True
    node: ast.AST | None = tree.statement(binding.node)
    if isinstance(node, (ast.For, ast.AsyncFor)) and binding.kind == "loop":
        return node in path and path[node] in node.body
    while node is not None:
        parent = tree.parents.get(node)
        if parent is None:
            return False
        if parent in path:
            return _same_branch(parent, node, path[parent])
        passes = isinstance(parent, (ast.With, ast.AsyncWith))
        if isinstance(parent, ast.Try):
            passes = node in parent.body or node in parent.finalbody
        if not passes:
            return False
        node = parent
    return False


def _same_branch(parent: ast.AST, one: ast.AST, other: ast.AST) -> bool:
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and one in block:
            return other in block
    return True


def _line(binding: Binding) -> int:
    return getattr(binding.node, "lineno", 0)


def _is_in_one_of(tree: SyntaxIndex, node: ast.AST, loops: list[ast.For | ast.AsyncFor | ast.While]) -> bool:
    return any(ancestor in loops for ancestor in tree.ancestors(node))
