"""The values that an attribute of a class gets in the program."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.flow.call_arguments import last_name, written_argument
from gpuproof.linter.analysis.flow.call_targets import Definition, base_classes, methods
from gpuproof.linter.analysis.flow.model import NO_SOURCES, UNKNOWN_SOURCES, CallSite, Sources, Tracer, merged
from gpuproof.linter.analysis.flow.references import attribute_stores, references, subclasses
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module

_FIELDS = ("dataclass", "NamedTuple", "BaseModel", "define", "s", "frozen")
"""Decorators and bases of classes whose annotated names are parameters of the constructor."""


def attribute_values_of(tracer: Tracer, owner: Definition, name: str) -> Sources | None:
    """The values that an attribute of a class gets in the program; None if it gets none."""
    assert isinstance(owner.node, ast.ClassDef)
    family = [*base_classes(owner), *subclasses(owner)]
    nodes = {member.node for member in family}
    parts: list[Sources] = []
    for member in family:
        parts += _class_values(tracer, member, name)
    for module in program_modules(owner.module, name):
        for store in attribute_stores(module, name):
            holder = store.value
            within = module.enclosing(store, ast.ClassDef)
            is_own = isinstance(holder, ast.Name) and holder.id in ("self", "cls")
            known = Definition(module, within) if is_own and within is not None else None
            if not is_own and not isinstance(holder, ast.Call):
                known = tracer.class_of(module, holder)
            if known is not None and known.node in nodes:
                parts.append(_store(tracer, module, store))
    return merged(parts) if parts else None


def _class_values(tracer: Tracer, owner: Definition, name: str) -> list[Sources]:
    module, node = owner
    assert isinstance(node, ast.ClassDef)
    parts: list[Sources] = []
    for binding in module.names.bindings(node).get(name, ()):
        if isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            is_property = any("property" in last_name(item) for item in binding.node.decorator_list)
            returned = tracer.returned(Definition(module, binding.node)) if is_property else None
            parts.append(returned if returned is not None else UNKNOWN_SOURCES)
        elif isinstance(module.parent(binding.node), ast.AnnAssign) and _has_fields(node):
            parts += _fields(tracer, owner, name, binding.value)
        else:
            parts.append(tracer.binding(module, binding))
    return parts


def _fields(tracer: Tracer, owner: Definition, name: str, default: ast.expr | None) -> list[Sources]:
    """What the calls of a dataclass pass for a field."""
    assert isinstance(owner.node, ast.ClassDef)
    names = [
        statement.target.id
        for statement in owner.node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]
    parts: list[Sources] = []
    for reference in references(owner):
        if reference.call is None:
            continue
        site = CallSite(reference.module, reference.call, 0)
        written = written_argument(site, name, names.index(name) if name in names else None)
        if written is None:
            parts.append(tracer.trace(owner.module, default))
        else:
            parts.append(tracer.trace(reference.module, written))
    return parts or [UNKNOWN_SOURCES]


def _store(tracer: Tracer, module: Module, store: ast.Attribute) -> Sources:
    parent = module.parent(store)
    match parent:
        case ast.Assign(value=value, targets=targets) if store in targets:
            return tracer.trace(module, value)
        case ast.AnnAssign(value=value) if value is not None:
            return tracer.trace(module, value)
        case ast.AnnAssign():
            return NO_SOURCES
        case ast.Tuple(elts=items):
            statement = module.parent(parent)
            if isinstance(statement, ast.Assign):
                return tracer.at(module, statement.value, items.index(store))
            return UNKNOWN_SOURCES
        case _:
            return UNKNOWN_SOURCES


def _has_fields(owner: ast.ClassDef) -> bool:
    """Whether the annotated names of a class are parameters of its constructor."""
    heads = [*owner.decorator_list, *owner.bases]
    return any(last_name(head) in _FIELDS for head in heads) and not any(
        method.name == "__init__" for method in methods(owner)
    )
