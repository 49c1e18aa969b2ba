"""The definitions that take part in a call: those its objects are made of, and those that get or change its modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuproof.linter.analysis.call import passed_arguments
from gpuproof.linter.analysis.flow.creations import stored_value
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.syntax_index import FunctionNode
from gpuproof.linter.analysis.types import TypeKind, type_of

_MAX_NODES = 200


def takes_part(module: Module, owner: ast.ClassDef, node: ast.AST) -> bool:
    """Whether a class may take part in what an expression of the same file computes; true if in doubt.

    It does if an object of the expression is made of it, gets an instance of it (`layers.append(Net())`, `model.head =
    Net()`), or is a module that it gets (`Wrapper(model)`).
    """
    found: list[ast.AST] = [node]
    bindings: list[Binding] = []
    modules: list[Binding] = []
    for part in found:
        if part is owner or len(found) > _MAX_NODES:
            return True
        for other in _made_of(module, part, bindings, modules):
            if other not in found:
                found.append(other)
        # The last of the values: now the variables are known that something else may change or wrap.
        if part is found[-1]:
            found += [other for other in _changes(module, bindings, modules) if other not in found]
    return False


def _made_of(
    module: Module, part: ast.AST, bindings: list[Binding], modules: list[Binding]
) -> Iterator[ast.AST]:
    """What the names of an expression or definition stand for; their bindings are added to the lists."""
    for node in ast.walk(part):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            owner = module.enclosing(node, ast.ClassDef)
            made = stored_value(module, node)
            if made is not None:
                yield made
            elif owner is not None:
                yield owner
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        for binding in module.reaching(node):
            if binding.kind == "definition":
                yield binding.node
                continue
            if binding not in bindings:
                bindings.append(binding)
                if type_of(module, node).kind is TypeKind.MODULE:
                    modules.append(binding)
            if binding.value is not None:
                yield binding.value
            if binding.kind == "parameter":
                yield from (given for given in passed_arguments(module, binding) if given is not None)


def _changes(module: Module, bindings: list[Binding], modules: list[Binding]) -> Iterator[ast.AST]:
    """What other statements add to variables, and the classes and objects that get one that is a module."""
    names = {binding.name for binding in bindings}
    for node in module.nodes(ast.Name):
        if node.id not in names or not isinstance(node.ctx, ast.Load):
            continue
        reaching = module.reaching(node)
        if not any(binding in bindings for binding in reaching):
            continue
        place: ast.AST = node
        parent = module.parent(place)
        while isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is place:
            place, parent = parent, module.parent(parent)
        if isinstance(parent, ast.Call) and parent.func is place and place is not node:
            yield from (*parent.args, *(keyword.value for keyword in parent.keywords))
        elif isinstance(parent, (ast.Assign, ast.AugAssign)) and place is not parent.value:
            yield parent.value
        elif isinstance(parent, ast.Assign) and place is node:
            _add_aliases(module, parent, bindings, modules)
        elif any(binding in modules for binding in reaching):
            yield from _receivers(module, place, bindings, modules)


def _add_aliases(
    module: Module, assignment: ast.Assign, bindings: list[Binding], modules: list[Binding]
) -> None:
    """Add the other names of an object: `net = model`."""
    for node in module.nodes(ast.Name):
        for binding in module.reaching(node) if isinstance(node.ctx, ast.Load) else ():
            if binding.value is assignment.value and binding not in bindings:
                bindings.append(binding)
                if type_of(module, node).kind is TypeKind.MODULE:
                    modules.append(binding)


def _receivers(
    module: Module, node: ast.AST, bindings: list[Binding], modules: list[Binding]
) -> Iterator[ast.AST]:
    """The callee that gets a module; a parameter of a function of the file is another name of the module."""
    keyword: str | None = None
    parent = module.parent(node)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Dict, ast.Starred, ast.keyword)):
        keyword = parent.arg if isinstance(parent, ast.keyword) else keyword
        node, parent = parent, module.parent(parent)
    if not isinstance(parent, ast.Call) or node is parent.func:
        return
    definitions = [
        binding.node
        for binding in (module.reaching(parent.func) if isinstance(parent.func, ast.Name) else ())
    ]
    function = definitions[0] if len(definitions) == 1 else None
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        yield parent.func
        return
    position = parent.args.index(node) if isinstance(node, ast.expr) and node in parent.args else None
    parameter = _parameter(module, function, keyword, position)
    if parameter is None:
        yield function
    elif parameter not in modules:
        bindings.append(parameter)
        modules.append(parameter)
        yield from _changes(module, [parameter], [parameter])


def _parameter(
    module: Module, function: FunctionNode, keyword: str | None, position: int | None
) -> Binding | None:
    """The binding of the parameter that gets an argument."""
    positional = [*function.args.posonlyargs, *function.args.args]
    if keyword is None and position is not None and position < len(positional):
        keyword = positional[position].arg
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == keyword:
            for binding in module.reaching(node):
                if binding.kind == "parameter" and binding.scope is function:
                    return binding
    return None
