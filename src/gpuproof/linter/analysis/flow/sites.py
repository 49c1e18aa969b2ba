"""Finds the calls of a function, method or constructor in the program."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpuproof.linter.analysis.flow.call_arguments import last_name
from gpuproof.linter.analysis.flow.call_targets import (
    Definition,
    base_classes,
    find_definition,
    find_method,
    methods,
)
from gpuproof.linter.analysis.flow.model import CallSite, CallSites, Tracer
from gpuproof.linter.analysis.flow.references import (
    Reference,
    attribute_reads,
    reference_to,
    references,
    subclasses,
)
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name

_RUN_AS_OBJECT = frozenset({"forward", "__call__", "call"})
"""Methods that run when an object is called."""


def find_sites(tracer: Tracer, function: Definition) -> CallSites:
    """The calls of a function or method."""
    module, node = function
    owner = module.parent(node)
    if not isinstance(owner, ast.ClassDef):
        return _of_references(references(function), 0)
    if node.name == "__init__":
        return _constructions(Definition(module, owner))
    if node.name in _RUN_AS_OBJECT:
        return CallSites((), complete=False)
    return _method_sites(tracer, function, Definition(module, owner))


def _constructions(owner: Definition) -> CallSites:
    parts = [_of_references(references(owner), 1, ignore_bases=True)]
    for derived in subclasses(owner):
        assert isinstance(derived.node, ast.ClassDef)
        initializer = next((item for item in methods(derived.node) if item.name == "__init__"), None)
        if initializer is None:
            parts.append(_of_references(references(derived), 1, ignore_bases=True))
            continue
        calls = [
            call
            for read in attribute_reads(derived.module, "__init__")
            if isinstance(call := derived.module.parent(read), ast.Call)
            and derived.module.tree.is_within(read, initializer)
            and isinstance(read.value, ast.Call)
        ]
        parts.append(CallSites(tuple(CallSite(derived.module, call, 1) for call in calls), complete=True))
    return CallSites(
        tuple(site for part in parts for site in part.found), all(part.complete for part in parts)
    )


def _method_sites(tracer: Tracer, method: Definition, owner: Definition) -> CallSites:
    assert not isinstance(method.node, ast.ClassDef)
    name = method.node.name
    is_static = any(last_name(item) == "staticmethod" for item in method.node.decorator_list)
    found: list[CallSite] = []
    escapes = False
    family: set[ast.AST] | None = None
    for module in program_modules(method.module, name):
        for read in attribute_reads(module, name):
            holder = tracer.class_of(module, read.value)
            if holder is None:
                target = find_definition(module, read)
                is_this = target is not None and target.node is method.node
                is_this = is_this or _is_super(module, read, method)
            else:
                target = find_method(holder, name)
                is_this = target is not None and target.node is method.node
                if not is_this and isinstance(read.value, ast.Name) and read.value.id == "self":
                    # A base class calls what its subclasses implement.
                    if family is None:
                        family = {base.node for base in base_classes(owner)}
                    is_this = holder.node in family
            if not is_this:
                continue
            reference = reference_to(module, read)
            if reference.call is None:
                escapes = True
            else:
                found.append(CallSite(module, reference.call, 0 if is_static else 1))
    return CallSites(tuple(found), not escapes)


def _is_super(module: Module, read: ast.Attribute, method: Definition) -> bool:
    """Whether `super().name` is a method."""
    if not isinstance(read.value, ast.Call) or callee_name(read.value) != "super":
        return False
    within = module.enclosing(read, ast.ClassDef)
    if within is None:
        return False
    bases = [found for base in within.bases if (found := find_definition(module, base)) is not None]
    return any(
        (found := find_method(base, read.attr)) is not None and found.node is method.node for base in bases
    )


def _of_references(found: Iterable[Reference], bound: int, *, ignore_bases: bool = False) -> CallSites:
    sites: list[CallSite] = []
    complete = True
    for reference in found:
        parent = reference.module.parent(reference.node)
        if reference.call is not None:
            sites.append(CallSite(reference.module, reference.call, bound))
        elif isinstance(parent, ast.Return):
            given = _of_returned(reference)
            sites += given.found
            complete = complete and given.complete
        elif (ignore_bases and isinstance(parent, ast.ClassDef)) or (
            isinstance(parent, ast.Call) and callee_name(parent) in ("isinstance", "issubclass")
        ):
            continue
        else:
            complete = False
    return CallSites(tuple(sites), complete)


def _of_returned(reference: Reference) -> CallSites:
    """The calls of a function that another one returns: `step = make_step(model)`, `step(batch)`."""
    module = reference.module
    outer = module.function_of(reference.node)
    if outer is None or isinstance(module.parent(outer), ast.ClassDef):
        return CallSites((), complete=False)
    sites: list[CallSite] = []
    complete = True
    for made in references(Definition(module, outer)):
        home = made.module
        match home.parent(made.call) if made.call is not None else None:
            case ast.Call(func=function) as call if function is made.call:
                sites.append(CallSite(home, call, 0))
            case ast.Assign(targets=[ast.Name() as target]):
                for use in home.tree.uses_of(target.id):
                    if not any(binding.node is target for binding in home.reaching(use)):
                        continue
                    call = home.parent(use)
                    if isinstance(call, ast.Call) and call.func is use:
                        sites.append(CallSite(home, call, 0))
                    else:
                        complete = False
            case _:
                complete = False
    return CallSites(tuple(sites), complete)
