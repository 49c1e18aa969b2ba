"""Whether a class or a module of the project has an attribute: yes in doubt."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name

_PLAIN_DECORATORS = frozenset(
    {"dataclass", "dataclasses.dataclass", "total_ordering", "functools.total_ordering"}
)
_PLAIN_BASES = frozenset({"object", "typing.Generic", "abc.ABC"})
_DYNAMIC_METHODS = frozenset(
    {"__getattr__", "__getattribute__", "__new__", "__init_subclass__", "__set_name__"}
)
_DYNAMIC_CALLS = frozenset({"setattr", "globals", "exec", "vars", "locals", "__setattr__", "__setitem__"})


def class_members(owner: Definition) -> frozenset[str] | None:
    """The attributes of the instances of a class; None if it may have others."""
    found: set[str] = set()
    pending, seen = [owner], set[ast.AST]()
    while pending:
        module, node = pending.pop()
        if node in seen or not isinstance(node, ast.ClassDef):
            continue
        seen.add(node)
        if node.keywords or not _has_plain_decorators(module, node):
            return None
        bindings = module.names.bindings(node)
        if _DYNAMIC_METHODS & bindings.keys():
            return None
        found |= bindings.keys() | {"__dict__", "__class__", "__doc__", "__module__"}
        for base in node.bases:
            written = base.value if isinstance(base, ast.Subscript) else base
            if module.text(written) in _PLAIN_BASES or module.qualified(written) in _PLAIN_BASES:
                continue
            definition = find_definition(module, written)
            if definition is None:
                return None
            pending.append(definition)
    for module in program_modules(owner.module):
        stored = module.derived(_stored_attributes)
        if stored is None:
            return None
        found |= stored
    return frozenset(found)


def module_has(module: Module, name: str) -> bool:
    """Whether a module of the project may have a name; submodules are not looked at."""
    if module.names.has_star or name.startswith("__"):
        return True
    own = module.names.bindings(module.tree.root)
    if name in own or name in module.names.imports or "__getattr__" in own:
        return True
    return module.derived(_binds_dynamically) or name in module.derived(_other_bindings)


def _has_plain_decorators(module: Module, node: ast.ClassDef) -> bool:
    for decorator in node.decorator_list:
        written = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (module.qualified(written) or module.text(written)) not in _PLAIN_DECORATORS:
            return False
    return True


def _stored_attributes(module: Module) -> frozenset[str] | None:
    """The attributes that code of a module sets on any object; None if it may set any."""
    if any(callee_name(call) in _DYNAMIC_CALLS for call in module.nodes(ast.Call)):
        return None
    attributes = module.nodes(ast.Attribute)
    if any(node.attr == "__dict__" for node in attributes):
        return None
    return frozenset(node.attr for node in attributes if not isinstance(node.ctx, ast.Load))


def _binds_dynamically(module: Module) -> bool:
    return any(callee_name(call) in _DYNAMIC_CALLS for call in module.nodes(ast.Call))


def _other_bindings(module: Module) -> frozenset[str]:
    handlers = {node.name for node in module.nodes(ast.ExceptHandler) if node.name}
    return frozenset(handlers | {name for node in module.nodes(ast.Global) for name in node.names})
