"""Infers the types of expressions by following them to their origin."""

from __future__ import annotations

import ast
from dataclasses import replace

from gpuproof.linter.analysis.call import Call, calls_named, local_function, origin_call
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition
from gpuproof.linter.analysis.flow.creations import returned_values
from gpuproof.linter.analysis.known_types import (
    DATASET_METHODS,
    MOVERS,
    TENSOR_METHODS,
    WRAPPERS,
)
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding
from gpuproof.linter.analysis.types.libraries import is_keras, moved_to, moves_inside, type_of_named
from gpuproof.linter.analysis.types.loops import find_iterated, is_direct
from gpuproof.linter.analysis.types.model import UNKNOWN_TYPE, InferredType, TypeKind
from gpuproof.linter.analysis.usage import moves_name

MAX_DEPTH = 12
MAX_STEPS = 500
"""Expressions that are followed to find the type of one; where they branch, they grow exponentially with the depth."""


def type_of(module: Module, node: ast.expr | None, depth: int = 0) -> InferredType:
    """The type of an expression in a module; `UNKNOWN_TYPE` if unknown."""
    if node is None or depth > MAX_DEPTH:
        return UNKNOWN_TYPE
    progress = module.derived(_Progress)
    if depth:
        progress.steps_left -= 1
        return _infer(module, node, depth) if progress.steps_left > 0 else UNKNOWN_TYPE
    if node not in progress.results:
        progress.steps_left = MAX_STEPS
        progress.results[node] = _infer(module, node, depth)
    return progress.results[node]


class _Progress:
    """The inferred types of a module, and how many expressions may still be looked at for the current one."""

    def __init__(self, _: Module) -> None:
        self.results: dict[ast.expr, InferredType] = {}
        self.steps_left = MAX_STEPS


def _infer(module: Module, node: ast.expr, depth: int) -> InferredType:
    match node:
        case ast.Name():
            return _of_name(module, node, depth)
        case ast.Call():
            return _of_call(module, node, depth)
        case ast.Attribute(value=ast.Name(id="self")):
            return _of_own_attribute(module, node, depth)
        case ast.Subscript(value=value):
            inner = type_of(module, value, depth + 1)
            return (
                replace(inner, kind=TypeKind.TENSOR)
                if inner.kind in (TypeKind.BATCH, TypeKind.TENSOR)
                else UNKNOWN_TYPE
            )
        case ast.Attribute(value=value, attr="module"):
            return type_of(module, value, depth + 1)
        case ast.BinOp(left=left, right=right):
            one, other = type_of(module, left, depth + 1), type_of(module, right, depth + 1)
            return (
                one
                if one.kind is TypeKind.TENSOR
                else other
                if other.kind is TypeKind.TENSOR
                else UNKNOWN_TYPE
            )
        case ast.IfExp(body=body, orelse=orelse):
            return _common_type([type_of(module, body, depth + 1), type_of(module, orelse, depth + 1)])
        case _:
            return UNKNOWN_TYPE


def _of_name(module: Module, node: ast.Name, depth: int) -> InferredType:
    bindings = module.reaching(node)
    if not bindings:
        return UNKNOWN_TYPE
    found = _common_type([_of_binding(module, binding, depth) for binding in bindings])
    if found.kind is TypeKind.MODULE and found.device == "cpu" and _moved_in_place(module, node):
        return replace(found, device="gpu")
    return found


def _common_type(options: list[InferredType]) -> InferredType:
    """The type that all options have in common."""
    first = options[0]
    if any(option.kind is not first.kind for option in options):
        return UNKNOWN_TYPE
    return first if all(option.device == first.device for option in options) else InferredType(first.kind)


def _of_binding(module: Module, binding: Binding, depth: int) -> InferredType:
    match binding.kind:
        case "assign" | "with":
            return type_of(module, binding.value, depth + 1)
        case "loop":
            return _of_loop(module, binding, depth)
        case "unpack" if isinstance(binding.value, (ast.Tuple, ast.List)):
            items = binding.value.elts
            index = binding.index if binding.index is not None else len(items)
            # `x, y = x.to(device), y.to(device)`
            return type_of(module, items[index], depth + 1) if index < len(items) else UNKNOWN_TYPE
        case "unpack" if binding.value is not None:
            inner = type_of(module, binding.value, depth + 1)
            if inner.kind is TypeKind.BATCH:
                return replace(inner, kind=TypeKind.TENSOR)
            return _of_returned_item(module, binding, depth)
        case "parameter":
            return _of_parameter(module, binding, depth)
        case _:
            return UNKNOWN_TYPE


def _of_returned_item(module: Module, binding: Binding, depth: int) -> InferredType:
    """The type of one of the values that a function of the project returns together."""
    if binding.index is None or not isinstance(binding.value, ast.Call):
        return UNKNOWN_TYPE
    made = find_definition(module, binding.value.func)
    if made is None or isinstance(made.node, ast.ClassDef):
        return UNKNOWN_TYPE
    items: list[ast.expr] = []
    for value in returned_values(made):
        if not isinstance(value, ast.Tuple) or binding.index >= len(value.elts):
            return UNKNOWN_TYPE
        items.append(value.elts[binding.index])
    return _common_type([type_of(made.module, item, depth + 3) for item in items]) if items else UNKNOWN_TYPE


def _of_loop(module: Module, binding: Binding, depth: int) -> InferredType:
    iterated = find_iterated(module, binding.value)
    inner = type_of(module, iterated.value, depth + 1)
    if inner.kind is TypeKind.LOADER:
        whole = binding.index is None and not iterated.counted
        # `for i, batch in enumerate(loader)`, `for i, (x, y) in ...`: the counter is not a tensor.
        if iterated.counted and binding.index == 0:
            return UNKNOWN_TYPE
        return InferredType(
            TypeKind.BATCH if whole or (iterated.counted and is_direct(module, binding)) else TypeKind.TENSOR,
            "cpu",
        )
    return UNKNOWN_TYPE


def _of_parameter(module: Module, binding: Binding, depth: int) -> InferredType:
    """The type of the argument that every call in the file passes for a parameter, by position or keyword."""
    function = binding.scope
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) or depth > 4:
        return UNKNOWN_TYPE
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    calls = [call for call in calls_named(module, function.name) if local_function(call) is function]
    if not calls and binding.name == _served(function, names):
        return _of_model_fn(module, depth)
    if not calls or binding.name not in names:
        return UNKNOWN_TYPE
    given = [call.expression(binding.name, names.index(binding.name)) for call in calls]
    if any(argument is None for argument in given):
        return UNKNOWN_TYPE
    return _common_type([type_of(module, argument, depth + 3) for argument in given])


def _served(function: ast.FunctionDef | ast.AsyncFunctionDef, names: list[str]) -> str | None:
    """The parameter of a handler's function that gets what `model_fn` returns."""
    place = {"predict_fn": 1, "transform_fn": 0}.get(function.name)
    return names[place] if place is not None and place < len(names) else None


def _of_model_fn(module: Module, depth: int) -> InferredType:
    load = module.functions.get("model_fn")
    returned = returned_values(Definition(module, load)) if load is not None else []
    return (
        _common_type([type_of(module, value, depth + 3) for value in returned]) if returned else UNKNOWN_TYPE
    )


def _of_own_attribute(module: Module, node: ast.Attribute, depth: int) -> InferredType:
    owner = module.enclosing(node, ast.ClassDef)
    if owner is None:
        return UNKNOWN_TYPE
    stores = [
        other
        for other in module.nodes(ast.Attribute)
        if other.attr == node.attr
        and isinstance(other.ctx, ast.Store)
        and module.tree.is_within(other, owner)
    ]
    statements = [module.parent(store) for store in stores]
    values = [
        statement.value
        for statement in statements
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1
    ]
    if not values or len(values) != len(stores):
        return UNKNOWN_TYPE
    found = _common_type([type_of(module, value, depth + 2) for value in values])
    # A submodule moves with the module around it.
    return InferredType(found.kind) if found.kind is TypeKind.MODULE else found


def _of_call(module: Module, node: ast.Call, depth: int) -> InferredType:
    call = origin_call(module, node) or Call(node, module)
    if call.name is not None:
        wraps = call.name.endswith(WRAPPERS) and bool(node.args)
        named = type_of(module, node.args[0], depth + 1) if wraps else type_of_named(call)
        if named.kind is not None:
            return named
    if isinstance(node.func, ast.Name):
        return _of_own(module, node, depth)
    if call.receiver is not None:
        return _of_method(module, call, type_of(module, call.receiver, depth + 1))
    return UNKNOWN_TYPE


def _of_own(module: Module, node: ast.Call, depth: int) -> InferredType:
    """A class or function of the project."""
    made = find_definition(module, node.func)
    if made is None:
        return UNKNOWN_TYPE
    module, owner = made
    if isinstance(owner, ast.ClassDef):
        bases = list(module.bases(owner))
        if any(
            base in ("torch.nn.Module", "torch.jit.ScriptModule") or base.startswith("torch.nn.")
            for base in bases
        ):
            return InferredType(TypeKind.MODULE, None if moves_inside(module, owner) else "cpu")
        if any(is_keras(base) and base.endswith((".Model", ".Sequential")) for base in bases):
            return InferredType(TypeKind.KERAS_MODEL)
        return UNKNOWN_TYPE
    returns = returned_values(made)
    return (
        _common_type([type_of(module, return_, depth + 3) for return_ in returns])
        if returns
        else UNKNOWN_TYPE
    )


def _of_method(module: Module, call: Call, receiver: InferredType) -> InferredType:
    match receiver.kind:
        case TypeKind.TENSOR | TypeKind.MODULE | TypeKind.BATCH if call.method in MOVERS:
            return replace(receiver, device=moved_to(module, call, receiver))
        case TypeKind.TENSOR | TypeKind.MODULE if call.method == "cpu":
            return replace(receiver, device="cpu")
        case TypeKind.TENSOR if call.method in TENSOR_METHODS:
            return receiver
        case TypeKind.MODULE if call.method in (
            "train",
            "eval",
            "float",
            "half",
            "double",
            "bfloat16",
            "requires_grad_",
        ):
            return receiver
        case TypeKind.TF_DATASET if call.method in DATASET_METHODS:
            return receiver
        case TypeKind.ESTIMATOR | TypeKind.SDK_MODEL if call.method == "deploy":
            return InferredType(TypeKind.PREDICTOR)
        case TypeKind.ESTIMATOR if call.method == "create_model":
            return InferredType(TypeKind.SDK_MODEL)
        case _:
            return UNKNOWN_TYPE


def _moved_in_place(module: Module, name: ast.Name) -> bool:
    """Whether `model.to(device)` or `model.cuda()` is called on the variable anywhere: modules move in place."""
    moves = [call for call in calls_named(module, "to", "cuda") if isinstance(call.receiver, ast.Name)]
    return moves_name(module, name, moves)
