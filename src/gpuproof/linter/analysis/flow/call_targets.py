"""The project's own functions and classes that a call runs."""

from __future__ import annotations

import ast
from typing import NamedTuple

from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import FunctionNode

_MAX_REEXPORTS = 4
_OF_CLASS = ("classmethod", "staticmethod")


class Definition(NamedTuple):
    """A function or class of the project."""

    module: Module
    node: FunctionNode | ast.ClassDef


def find_definition(module: Module, node: ast.expr) -> Definition | None:
    """The function or class of the project that an expression refers to, through imports; None if it is unknown."""
    if isinstance(node, ast.Name):
        bindings = module.reaching(node)
        if len(bindings) == 1:
            if node.id == "cls" and bindings[0].kind == "parameter":
                owner = module.enclosing(bindings[0].scope, ast.ClassDef)
                return Definition(module, owner) if owner is not None else None
            return _defined_by(module, bindings[0].node)
        if bindings:
            return None
        dotted = module.names.imports.get(node.id)
        return _imported(module, dotted) if dotted else _from_star(module, node.id)
    if not isinstance(node, ast.Attribute):
        return None
    if isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"):
        owner = module.enclosing(node, ast.ClassDef)
        return find_method(Definition(module, owner), node.attr) if owner is not None else None
    made = module.origin(node.value)
    if isinstance(made, ast.Call):
        created = find_definition(module, made.func)
        if created is not None and isinstance(created.node, ast.ClassDef):
            return find_method(created, node.attr)
        return None
    found = _imported(module, module.qualified(node))
    return found if found is not None else _of_class(module, node)


def find_method(owner: Definition, name: str) -> Definition | None:
    """The method of a class, also one that it inherits from a class of the project."""
    pending, seen = [owner], set[ast.AST]()
    while pending:
        module, node = pending.pop()
        if node in seen or not isinstance(node, ast.ClassDef):
            continue
        seen.add(node)
        for method in methods(node):
            if method.name == name:
                return Definition(module, method)
        pending += [found for base in node.bases if (found := _base(module, base)) is not None]
    return None


def called_instance(module: Module, function: ast.expr) -> Definition | None:
    """The method that a call of an object runs: `forward` of `model(x)`, if the class of `model` is known."""
    made = module.origin(function) if isinstance(function, ast.Name) else None
    if not isinstance(made, ast.Call):
        return None
    # `Net().to(device)` returns the model itself.
    while (
        isinstance(made.func, ast.Attribute)
        and made.func.attr in ("to", "cuda", "eval", "train")
        and isinstance(made.func.value, ast.Call)
    ):
        made = made.func.value
    created = find_definition(module, made.func)
    if created is None or not isinstance(created.node, ast.ClassDef):
        return None
    return next(
        (found for name in ("__call__", "forward", "call") if (found := find_method(created, name))), None
    )


def methods(node: ast.ClassDef) -> list[FunctionNode]:
    """The methods that a class defines itself."""
    return [
        statement for statement in node.body if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def returned_values(function: Definition) -> list[ast.expr]:
    """The values that a function returns."""
    assert not isinstance(function.node, ast.ClassDef)
    return function.module.derived(_Returns).values.get(function.node, [])


def base_classes(owner: Definition) -> list[Definition]:
    """A class and the classes of the project that it derives from."""
    found = [owner]
    for module, node in found:
        assert isinstance(node, ast.ClassDef)
        for base in node.bases:
            definition = _base(module, base)
            if (
                definition is not None
                and isinstance(definition.node, ast.ClassDef)
                and definition not in found
            ):
                found.append(definition)
    return found


def _base(module: Module, node: ast.expr) -> Definition | None:
    """The class of the project that is a base; `pdb.Pdb` is one of a module, even if a variable is called `pdb`."""
    return (
        find_definition(module, node)
        if isinstance(node, ast.Name)
        else _imported(module, module.qualified(node))
    )


def _of_class(module: Module, node: ast.Attribute) -> Definition | None:
    """The class method or static method of `Config.from_file`."""
    owner = find_definition(module, node.value) if isinstance(node.value, ast.Name) else None
    method = (
        find_method(owner, node.attr) if owner is not None and isinstance(owner.node, ast.ClassDef) else None
    )
    if method is None or isinstance(method.node, ast.ClassDef):
        return None
    is_bound = any(getattr(item, "id", "") in _OF_CLASS for item in method.node.decorator_list)
    return method if is_bound else None


def _defined_by(module: Module, node: ast.AST) -> Definition | None:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return Definition(module, node)
    return None


def _imported(module: Module, qualified: str | None, depth: int = 0) -> Definition | None:
    if not qualified or depth > _MAX_REEXPORTS:
        return None
    holder, _, name = qualified.rpartition(".")
    if qualified.startswith(".") and not holder.strip("."):
        holder = qualified[: len(qualified) - len(qualified.lstrip("."))]
    other = module.loader.imported_module(module, holder) if holder else None
    if other is None or other is module:
        return None
    found = other.functions.get(name) or other.classes.get(name)
    if found is not None:
        return Definition(other, found)
    # `from .model import Net` in the package's `__init__`.
    dotted = other.names.imports.get(name)
    return _imported(other, dotted, depth + 1) if dotted else _from_star(other, name, depth + 1)


def _from_star(module: Module, name: str, depth: int = 0) -> Definition | None:
    """A function or class that a module gets by `from x import *`."""
    for star in module.names.stars if depth <= _MAX_REEXPORTS else ():
        found = _imported(module, f"{star}{name}" if star.endswith(".") else f"{star}.{name}", depth + 1)
        if found is not None:
            return found
    return None


class _Returns:
    """The returned values of a module by function."""

    def __init__(self, module: Module) -> None:
        self.values: dict[FunctionNode, list[ast.expr]] = {}
        for node in module.nodes(ast.Return):
            function = module.function_of(node)
            if function is not None and node.value is not None:
                self.values.setdefault(function, []).append(node.value)
