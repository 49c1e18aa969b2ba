"""Whether two nodes of a function can run together: `if` and `elif`, cases of a `match`, branches that return."""

from __future__ import annotations

import ast
from itertools import pairwise

from gpuproof.linter.analysis.module import Module


def are_exclusive(module: Module, first: ast.AST, second: ast.AST) -> bool:
    """Whether at most one of two nodes runs in one call of their function."""
    above = {id(node): index for index, node in enumerate(_path(module, first))}
    path = _path(module, second)
    meet = next((index for index, node in enumerate(path) if id(node) in above), None)
    if meet is None:
        return False
    first_path = _path(module, first)[: above[id(path[meet])]]
    second_path = path[:meet]
    arms = _arm(path[meet], first_path), _arm(path[meet], second_path)
    if None not in arms and arms[0] != arms[1]:
        return True
    early, late = (
        (first_path, second)
        if getattr(first, "lineno", 0) < getattr(second, "lineno", 0)
        else (second_path, first)
    )
    return _leaves(module, [*early, path[meet]], late)


def _path(module: Module, node: ast.AST) -> list[ast.AST]:
    """A node and its ancestors, up to its function."""
    found = [node]
    for ancestor in module.tree.ancestors(node):
        found.append(ancestor)
        if isinstance(ancestor, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            break
    return found


def _arm(meeting: ast.AST, below: list[ast.AST]) -> int | None:
    """In which branch of the node above them some nodes are; None if it has no branches."""
    child = below[-1] if below else None
    match meeting:
        case ast.If():
            return None if child is meeting.test else int(child in meeting.body)
        case ast.IfExp():
            return None if child is meeting.test else int(child is meeting.body)
        case ast.Match():
            return next((index for index, case in enumerate(meeting.cases) if case is child), None)
        case _:
            return None


def _leaves(module: Module, early: list[ast.AST], late: ast.AST) -> bool:
    """Whether a branch with the earlier node ends the function, so that the later one does not run."""
    for child, parent in pairwise(early):
        arm = None
        if isinstance(parent, ast.If):
            arm = parent.body if child in parent.body else parent.orelse if child in parent.orelse else None
        elif isinstance(parent, ast.match_case):
            arm = parent.body if child in parent.body else None
        if arm and _ends(arm[-1]) and not module.tree.is_within(late, parent):
            return True
    return False


def _ends(statement: ast.stmt) -> bool:
    """Whether a statement always ends the function."""
    if isinstance(statement, (ast.With, ast.AsyncWith)):
        return _ends(statement.body[-1])
    return isinstance(statement, (ast.Return, ast.Raise))
