"""The entries that code adds to a mapping after it is created: `settings["lr"] = 0.1`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from gpuproof.linter.analysis.evaluation.limits import Progress
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.values import UNKNOWN, Entries, Value

_CHANGES = frozenset(
    ["update", "setdefault", "pop", "clear", "popitem", "merge_with", "merge_from_file", "merge_from_list"]
)
"""Methods that change a mapping."""


def with_stored_keys(
    module: Module, binding: Binding, value: Value, evaluate: Callable[[ast.expr], Value], progress: Progress
) -> Value:
    """A mapping with the keys that are added to its name; unknown if other code may change it in another way."""
    entries = Entries(value.entries or {})
    entries.complete = bool(value.entries and value.entries.complete)
    entries.file = value.entries.file if value.entries is not None else None
    for use in module.tree.uses_of(binding.name):
        if not progress.step():
            return UNKNOWN
        if not any(binding is seen for seen in module.names.visible(use.id, use)):
            # Another variable of the same name.
            continue
        parent = module.parent(use)
        if isinstance(parent, ast.Subscript):
            if isinstance(parent.ctx, ast.Store):
                _store(module, entries, parent, evaluate)
            elif _is_changed_below(module, parent):
                _forget(entries, evaluate(parent.slice))
        elif isinstance(parent, ast.Attribute) and parent.attr in _CHANGES:
            if parent.attr != "setdefault":
                return UNKNOWN
            entries.complete = False
        elif (
            isinstance(parent, ast.Attribute) and parent.attr in entries and _is_changed_below(module, parent)
        ):
            entries[parent.attr] = UNKNOWN
    return replace(value, options=(entries,))


def _store(
    module: Module, entries: Entries, target: ast.Subscript, evaluate: Callable[[ast.expr], Value]
) -> None:
    statement = module.parent(target)
    key = evaluate(target.slice)
    if not key.is_known or not isinstance(key.value, (str, int)):
        entries.complete = False
        return
    is_simple = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and key.value not in entries
    entries[key.value] = (
        evaluate(statement.value) if is_simple and isinstance(statement, ast.Assign) else UNKNOWN
    )


def _is_changed_below(module: Module, node: ast.expr) -> bool:
    """Whether something inside an entry is assigned or changed: `settings["model"]["size"] = 3`."""
    parent = module.parent(node)
    while isinstance(parent, (ast.Subscript, ast.Attribute)):
        if not isinstance(parent.ctx, ast.Load) or (
            isinstance(parent, ast.Attribute) and parent.attr in _CHANGES
        ):
            return True
        node, parent = parent, module.parent(parent)
    return False


def _forget(entries: Entries, key: Value) -> None:
    """Make an entry unknown, or all of them if it is not known which one."""
    for name in [key.value] if key.is_known else list(entries):
        if name in entries:
            entries[name] = UNKNOWN
