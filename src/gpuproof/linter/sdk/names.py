"""Finds the names of a package, such as the SageMaker SDK, that a file uses, imported or as attributes of an import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.module import Module

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"})


class UsedName(NamedTuple):
    """One use of a name of a package.

    Attributes:
        path: the qualified name: `sagemaker.pytorch.PyTorch`.
        node: the alias of an import, or the attribute.
        statement: the import; None for an attribute.
        guarded: whether an exception handler covers its absence.
    """

    path: str
    node: ast.AST
    statement: ast.stmt | None
    guarded: bool


def used_names(module: Module, package: str = "sagemaker", *, inner: bool = False) -> Iterator[UsedName]:
    """The imported names of a package, then the names used as attributes of what is imported, without duplicates.

    Args:
        package: its top-level name.
        inner: also the attributes of its modules that are imported by name (`from tensorflow import keras`).
    """
    imported: set[str] = set()
    for statement in module.nodes(ast.Import, ast.ImportFrom):
        for alias in statement.names:
            path = _imported(statement, alias, package)
            if path is not None:
                imported.add(path)
                yield UsedName(path, alias, statement, is_guarded(module, statement))
    # Names that are imported directly are reported at the import.
    roots = {
        local
        for local, path in module.names.imports.items()
        if path == package or (inner and _is_module(path, package))
    }
    if not roots:
        return
    seen: set[str] = set()
    for node in module.nodes(ast.Attribute):
        if isinstance(module.parent(node), ast.Attribute) or _root(node) not in roots:
            continue
        path = module.qualified(node)
        if path is None or not path.startswith(package + ".") or path in seen or path in imported:
            continue
        seen.add(path)
        yield UsedName(path, node, None, is_guarded(module, node))


def _is_module(path: str, package: str) -> bool:
    """Whether an imported path is the package or, by its spelling, a module in it."""
    return path.partition(".")[0] == package and path.rpartition(".")[2].islower()


def _imported(statement: ast.Import | ast.ImportFrom, alias: ast.alias, package: str) -> str | None:
    if isinstance(statement, ast.Import):
        found = alias.name
    elif statement.level or statement.module is None or alias.name == "*":
        return None
    else:
        found = f"{statement.module}.{alias.name}"
    return found if found.partition(".")[0] == package else None


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_guarded(module: Module, node: ast.AST) -> bool:
    """Whether a statement is in a `try` that catches its absence, or in the handler."""
    child, parent = node, module.parent(node)
    while parent is not None:
        handlers = parent.handlers if isinstance(parent, ast.Try) and child not in parent.finalbody else ()
        if any(_catches(handler) for handler in handlers):
            return True
        child, parent = parent, module.parent(parent)
    return False


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    return any(isinstance(node, ast.Name) and node.id in _CAUGHT for node in ast.walk(handler.type))
