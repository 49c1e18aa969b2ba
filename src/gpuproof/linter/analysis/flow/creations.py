"""Follows an object back to the calls that created it: `Net(...)` of `model`, `nn.CrossEntropyLoss()` of `self.loss`."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.call import Call, call_of
from gpuproof.linter.analysis.flow.call_targets import Definition
from gpuproof.linter.analysis.flow.sources import (
    SAME_OBJECT,
    Source,
    returned_values,
    sources,
    targets,
)
from gpuproof.linter.analysis.known_types import WRAPPERS
from gpuproof.linter.analysis.module import Module

__all__ = ["created_classes", "creations", "returned_values", "stored_value"]

_WRAPPERS = (*WRAPPERS, "DDP", "FSDP", "torch.jit.script", "deepcopy")
_MAX_OBJECTS = 24


def creations(module: Module, node: ast.expr | None) -> list[Call]:
    """The calls that may have created an object, such as a model or a loss; empty if one of them is unknown.

    They are followed through the whole program: names, parameters, what functions return, attributes of objects, items of
    tuples and mappings, wrappers such as DDP, `.to(device)`, and from `predict_fn` to `model_fn`.
    """
    if not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.IfExp)):
        return []
    found: dict[ast.Call, Call] = {}
    pending = [Source(module, node)]
    seen: set[ast.expr] = set()
    for source in pending:
        if source.node in seen:
            continue
        seen.add(source.node)
        traced = sources(source.module, source.node)
        if not traced.complete or len(seen) > _MAX_OBJECTS:
            return []
        for made in traced.found:
            call = call_of(made.module, made.node)
            if call is None:
                return []
            inner = _inner(call)
            if inner is None:
                found[call.node] = call
            else:
                pending.append(Source(made.module, inner))
    return list(found.values())


def created_classes(module: Module, node: ast.expr | None) -> list[Definition]:
    """The classes of the project of which an object may be; empty if its class is unknown, or of a library."""
    found: list[Definition] = []
    for call in creations(module, node):
        made = targets(call.module, call.node.func)
        if not made or not all(isinstance(target.node, ast.ClassDef) for target in made):
            return []
        found += [target for target in made if target not in found]
    return found


def stored_value(module: Module, node: ast.Attribute) -> ast.expr | None:
    """The value of `self.name`, if the class sets it once."""
    owner = module.enclosing(node, ast.ClassDef)
    if owner is None:
        return None
    stores = [
        module.parent(other)
        for other in module.nodes(ast.Attribute)
        if other.attr == node.attr
        and isinstance(other.ctx, ast.Store)
        and module.tree.is_within(other, owner)
    ]
    store = stores[0] if len(stores) == 1 else None
    return store.value if isinstance(store, ast.Assign) and len(store.targets) == 1 else None


def _inner(call: Call) -> ast.expr | None:
    """The object that a call returns as it is, moved or wrapped; None if it makes a new one."""
    if call.name is None and call.method in SAME_OBJECT and call.receiver is not None:
        return call.receiver
    if (call.name or call.method).endswith(_WRAPPERS) and call.node.args:
        return call.node.args[0]
    return None
