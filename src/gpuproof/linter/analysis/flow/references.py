"""References to functions, classes and attributes in the modules of a program, by name."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module


class Reference(NamedTuple):
    """One use of a name or attribute.

    Attributes:
        call: the call of it; None if it is passed on, stored or read.
    """

    module: Module
    node: ast.Name | ast.Attribute
    call: ast.Call | None


def references(definition: Definition) -> list[Reference]:
    """The uses of a function or class by its name, in its module and in those that import it."""
    memo = definition.module.derived(_Memo)
    if definition.node not in memo.references:
        memo.references[definition.node] = list(_references(definition))
    return memo.references[definition.node]


def _references(definition: Definition) -> Iterator[Reference]:
    module, node = definition
    for use in module.tree.uses_of(node.name):
        if any(binding.node is node for binding in module.reaching(use)):
            yield _reference(module, use)
    if not isinstance(module.names.scope(node), ast.Module):
        return
    for other in program_modules(module, node.name):
        if other.unit is module.unit:
            continue
        locals_ = [
            local
            for local, dotted in other.names.imports.items()
            if dotted.rpartition(".")[2] == node.name or local == node.name
        ]
        if other.names.has_star and node.name not in locals_:
            locals_.append(node.name)
        uses: list[ast.Name | ast.Attribute] = [use for name in locals_ for use in other.tree.uses_of(name)]
        uses += attribute_reads(other, node.name)
        for use in uses:
            found = find_definition(other, use)
            if found is not None and found.node is node:
                yield _reference(other, use)


def attribute_reads(module: Module, name: str) -> list[ast.Attribute]:
    """The reads of attributes of this name."""
    return module.derived(_AttributeIndex).reads.get(name, [])


def attribute_stores(module: Module, name: str) -> list[ast.Attribute]:
    """The places that set attributes of this name."""
    return module.derived(_AttributeIndex).stores.get(name, [])


def is_stored(module: Module, name: str) -> bool:
    """Whether the program sets attributes of this name, or a class has a field of it: otherwise it is a method."""
    loader = module.loader
    return name in loader.cached(
        "stored attributes of the program",
        module.unit,
        lambda: frozenset[str]().union(*map(_stored_names, program_modules(module))),
    )


def _stored_names(module: Module) -> frozenset[str]:
    return module.loader.cached(
        "stored attributes",
        module.unit,
        lambda: frozenset(
            [
                *(node.attr for node in module.nodes(ast.Attribute) if isinstance(node.ctx, ast.Store)),
                *(name for owner in module.nodes(ast.ClassDef) for name in module.names.bindings(owner)),
            ]
        ),
    )


def reference_to(module: Module, node: ast.Attribute) -> Reference:
    """The reference that an attribute is."""
    return _reference(module, node)


def subclasses(definition: Definition) -> list[Definition]:
    """The classes of the program that derive from a class, directly or not."""
    memo = definition.module.derived(_Memo)
    if definition.node not in memo.subclasses:
        memo.subclasses[definition.node] = _subclasses(definition)
    return memo.subclasses[definition.node]


def _subclasses(definition: Definition) -> list[Definition]:
    found: list[Definition] = []
    pending = [definition]
    while pending:
        current = pending.pop()
        for reference in references(current):
            parent = reference.module.parent(reference.node)
            if isinstance(parent, ast.ClassDef) and reference.node in parent.bases:
                derived = Definition(reference.module, parent)
                if all(other.node is not parent for other in found) and len(found) < _MAX_SUBCLASSES:
                    found.append(derived)
                    pending.append(derived)
    return found


_MAX_SUBCLASSES = 20


def _reference(module: Module, node: ast.Name | ast.Attribute) -> Reference:
    parent = module.parent(node)
    return Reference(module, node, parent if isinstance(parent, ast.Call) and parent.func is node else None)


class _Memo:
    """The references to definitions of a module, and the subclasses of its classes."""

    def __init__(self, _: Module) -> None:
        self.references: dict[ast.AST, list[Reference]] = {}
        self.subclasses: dict[ast.AST, list[Definition]] = {}


class _AttributeIndex:
    """The attributes of a module by name."""

    def __init__(self, module: Module) -> None:
        self.reads: dict[str, list[ast.Attribute]] = defaultdict(list)
        self.stores: dict[str, list[ast.Attribute]] = defaultdict(list)
        for node in module.nodes(ast.Attribute):
            (self.stores if isinstance(node.ctx, ast.Store) else self.reads)[node.attr].append(node)
