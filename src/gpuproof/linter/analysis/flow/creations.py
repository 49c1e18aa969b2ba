"""Follows an object back to the calls that created it: `Net(...)` of `model`, `nn.CrossEntropyLoss()` of `self.loss`."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpuproof.linter.analysis.call import Call, calls_named, local_function, origin_call, passed_arguments
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition
from gpuproof.linter.analysis.known_types import WRAPPERS
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding

_SAME_OBJECT = frozenset(
    {"to", "cuda", "cpu", "train", "eval", "float", "half", "bfloat16", "requires_grad_"}
)
"""Methods of modules that return the module itself."""
_WRAPPERS = (*WRAPPERS, "DDP", "FSDP", "torch.jit.script")
_SERVED = {"predict_fn": 1, "transform_fn": 0}
"""The parameter of a handler's function that gets what `model_fn` returns."""
_MAX_DEPTH = 12
_MAX_PLACES = 12


def creations(module: Module, node: ast.expr | None, depth: int = 0) -> list[Call]:
    """The calls that may have created an object, such as a model or a loss; empty if one of them is unknown.

    They are followed through names, parameters of functions, what functions of the project return, attributes of `self`,
    wrappers such as DDP, `.to(device)`, and from `predict_fn` to `model_fn`.
    """
    if depth > _MAX_DEPTH:
        return []
    match node:
        case ast.Name():
            return _of_name(module, node, depth)
        case ast.Attribute(value=ast.Name(id="self")):
            return creations(module, stored_value(module, node), depth + 1)
        case ast.Call():
            return _of_call(module, node, depth)
        case _:
            return []


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


def returned_values(function: Definition) -> list[ast.expr]:
    """The values that a function returns."""
    return [
        child.value
        for child in ast.walk(function.node)
        if isinstance(child, ast.Return)
        and child.value is not None
        and function.module.function_of(child) is function.node
    ]


def _all(places: Iterable[tuple[Module, ast.expr | None]], depth: int) -> list[Call]:
    """The creations of several expressions, each once; empty if one of them is unknown."""
    found: dict[ast.Call, Call] = {}
    for number, (module, node) in enumerate(places):
        made = creations(module, node, depth)
        if not made or number >= _MAX_PLACES:
            return []
        found.update((call.node, call) for call in made)
    return list(found.values())


def _of_name(module: Module, node: ast.Name, depth: int) -> list[Call]:
    found: dict[ast.Call, Call] = {}
    for binding in module.reaching(node):
        made = _of_binding(module, binding, depth + 1)
        if not made:
            return []
        found.update((call.node, call) for call in made)
    return list(found.values())


def _of_binding(module: Module, binding: Binding, depth: int) -> list[Call]:
    match binding.kind:
        case "assign":
            return creations(module, binding.value, depth)
        case "unpack":
            return _of_item(module, binding, depth)
        case "parameter":
            return _of_parameter(module, binding, depth)
        case _:
            return []


def _of_item(module: Module, binding: Binding, depth: int) -> list[Call]:
    """The creations of one of several values: `model, head = build()`, `a, b = Net(), Net()`."""
    index = binding.index
    if index is None:
        return []
    values = [(module, binding.value)]
    if isinstance(binding.value, ast.Call):
        found = find_definition(module, binding.value.func)
        if found is None or isinstance(found.node, ast.ClassDef):
            return []
        values = [(found.module, value) for value in returned_values(found)]
    return _all(
        [
            (home, value.elts[index] if isinstance(value, ast.Tuple) and index < len(value.elts) else None)
            for home, value in values
        ],
        depth + 2,
    )


def _of_parameter(module: Module, binding: Binding, depth: int) -> list[Call]:
    function = binding.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return []
    given = passed_arguments(module, binding)
    if not given and not calls_named(module, function.name):
        names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        place, load = _SERVED.get(function.name), module.functions.get("model_fn")
        if load is None or place is None or names[place : place + 1] != [binding.name]:
            return []
        given = list(returned_values(Definition(module, load)))
    return _all([(module, argument) for argument in given], depth + 2)


def _of_call(module: Module, node: ast.Call, depth: int) -> list[Call]:
    call = origin_call(module, node)
    if call is None:
        return []
    if call.name is None and call.method in _SAME_OBJECT and call.receiver is not None:
        return creations(module, call.receiver, depth + 1)
    if (call.name or call.method).endswith(_WRAPPERS) and node.args:
        return creations(module, node.args[0], depth + 1)
    function = local_function(call)
    found = Definition(module, function) if function is not None else find_definition(module, node.func)
    if found is None or isinstance(found.node, ast.ClassDef):
        return [call]
    return _all([(found.module, value) for value in returned_values(found)], depth + 3)
