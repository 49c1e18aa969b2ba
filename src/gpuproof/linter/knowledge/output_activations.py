"""The last activation of what a PyTorch model returns: raw scores, probabilities, or their logarithms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Literal

from gpuproof.linter.analysis.call import Call, calls_named, local_function, origin_call
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition, find_method
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.scopes import Binding

Activation = Literal["softmax", "log_softmax", "sigmoid", "logits"]

_FUNCTION = re.compile(
    r"^(torch|torch\.nn\.functional|torch\.special)\.(softmax|log_softmax|sigmoid|logsigmoid|expit)$"
)
_LAYERS: dict[str, Activation] = {
    "torch.nn.Softmax": "softmax",
    "torch.nn.Softmax2d": "softmax",
    "torch.nn.LogSoftmax": "log_softmax",
    "torch.nn.Sigmoid": "sigmoid",
    "torch.nn.Linear": "logits",
    "torch.nn.LazyLinear": "logits",
    "torch.nn.Bilinear": "logits",
}
_METHODS: dict[str, Activation] = {"softmax": "softmax", "log_softmax": "log_softmax", "sigmoid": "sigmoid"}
_SAME = frozenset(
    {
        "squeeze",
        "unsqueeze",
        "view",
        "reshape",
        "flatten",
        "float",
        "double",
        "to",
        "cuda",
        "cpu",
        "contiguous",
        "permute",
    }
    | {"transpose", "view_as", "reshape_as", "type", "half", "clone", "requires_grad_", "expand"}
)
"""Methods that change the shape, type or place of a tensor, not its values."""
_WRAPPERS = re.compile(
    r"(^|\.)(DataParallel|DistributedDataParallel|DDP|FullyShardedDataParallel|FSDP|compile|script|to|cuda|train|eval|float|half)$"
)
_MAX_DEPTH = 12


def activation_of(module: Module, node: ast.expr | None, depth: int = 0) -> Activation | None:
    """The last activation that was applied to a tensor; None if it is unknown, or differs between branches."""
    if node is None or depth > _MAX_DEPTH:
        return None
    match node:
        case ast.Name():
            bindings = module.reaching(node)
            return _common(_of_binding(module, binding, depth) for binding in bindings) if bindings else None
        case ast.Subscript(value=value, slice=ast.Slice() | ast.Tuple()):
            return activation_of(module, value, depth + 1)
        case ast.Call():
            return _of_call(module, node, depth)
        case _:
            return None


def creations(module: Module, node: ast.expr | None, depth: int = 0) -> list[tuple[Module, ast.Call]] | None:
    """The calls that may have created an object, such as a model or a loss; None if one of them is unknown.

    They are followed through names, parameters of functions, attributes of `self`, wrappers such as DDP, and `.to(device)`.
    """
    if node is None or depth > _MAX_DEPTH:
        return None
    match node:
        case ast.Name():
            found: list[tuple[Module, ast.Call]] = []
            bindings = module.reaching(node)
            for binding in bindings:
                made = _created_by(module, binding, depth)
                if made is None:
                    return None
                found += [item for item in made if item not in found]
            return found or None
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            value = _stored_value(module, node, name)
            return creations(module, value, depth + 1)
        case ast.Call():
            return _unwrapped(module, node, depth)
        case _:
            return None


def _unwrapped(module: Module, node: ast.Call, depth: int) -> list[tuple[Module, ast.Call]] | None:
    name = module.qualified(node.func) or ""
    last = node.func.attr if isinstance(node.func, ast.Attribute) else name.rpartition(".")[2]
    if _WRAPPERS.search(last):
        is_method = isinstance(node.func, ast.Attribute) and not name
        inner = (
            node.func.value
            if is_method and isinstance(node.func, ast.Attribute)
            else next(iter(node.args), None)
        )
        return creations(module, inner, depth + 1)
    call = origin_call(module, node) or Call(node, module)
    function = local_function(call)
    if function is not None:
        returned = _returned(module, function)
        if len(returned) != 1:
            return None
        return creations(module, returned[0], depth + 1)
    return [(module, node)]


def _created_by(module: Module, binding: Binding, depth: int) -> list[tuple[Module, ast.Call]] | None:
    if binding.kind == "assign":
        return creations(module, binding.value, depth + 1)
    function = binding.scope
    if binding.kind != "parameter" or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    calls = [call for call in calls_named(module, function.name) if local_function(call) is function]
    if binding.name not in names or not calls:
        return None
    found: list[tuple[Module, ast.Call]] = []
    for call in calls:
        made = creations(module, call.expression(binding.name, names.index(binding.name)), depth + 1)
        if made is None:
            return None
        found += made
    return found


def _of_binding(module: Module, binding: Binding, depth: int) -> Activation | None:
    if binding.kind == "assign":
        return activation_of(module, binding.value, depth + 1)
    return None


def _of_call(module: Module, node: ast.Call, depth: int) -> Activation | None:
    name = module.qualified(node.func) or ""
    match = _FUNCTION.match(name)
    if match is not None:
        return {
            "softmax": "softmax",
            "log_softmax": "log_softmax",
            "sigmoid": "sigmoid",
            "expit": "sigmoid",
        }.get(match.group(2))  # pyright: ignore[reportReturnType]
    if name == "torch.log" and node.args:
        return "log_softmax" if activation_of(module, node.args[0], depth + 1) == "softmax" else None
    if name in ("torch.squeeze", "torch.flatten", "torch.reshape") and node.args:
        return activation_of(module, node.args[0], depth + 1)
    if not name and isinstance(node.func, ast.Attribute) and find_definition(module, node.func) is None:
        method, holder = node.func.attr, node.func.value
        # Layers of `self` may have such names, too.
        if method in _METHODS and not _is_own(holder):
            return _METHODS[method]
        if method in _SAME:
            return activation_of(module, holder, depth + 1)
        if method == "log":
            return "log_softmax" if activation_of(module, holder, depth + 1) == "softmax" else None
    made = creations(module, node.func, depth + 1)
    if made is None and name:
        return None
    return _common(_of_layer(each, call, depth + 1) for each, call in made) if made else None


def _is_own(holder: ast.expr) -> bool:
    while isinstance(holder, ast.Attribute):
        holder = holder.value
    return isinstance(holder, ast.Name) and holder.id in ("self", "cls")


def _of_layer(module: Module, call: ast.Call, depth: int) -> Activation | None:
    """The last activation of what a layer or model returns that a call creates."""
    name = module.qualified(call.func) or ""
    if depth > _MAX_DEPTH:
        return None
    if name in _LAYERS:
        return _LAYERS[name]
    if name == "torch.nn.Sequential":
        last = call.args[-1] if call.args else None
        if isinstance(last, ast.Starred) or call.keywords:
            return None
        made = creations(module, last, depth + 1)
        return _common(_of_layer(each, inner, depth + 1) for each, inner in made) if made else None
    found = find_definition(module, call.func)
    if found is None or not isinstance(found.node, ast.ClassDef):
        return None
    return _of_class(found, depth)


def _of_class(owner: Definition, depth: int) -> Activation | None:
    module, node = owner
    if not isinstance(node, ast.ClassDef) or not any(
        base.endswith("nn.Module") for base in module.bases(node)
    ):
        return None
    forward = find_method(owner, "forward")
    if forward is None or isinstance(forward.node, ast.ClassDef) or forward.module is not module:
        return None
    returned = _returned(module, forward.node)
    return _common(activation_of(module, value, depth + 1) for value in returned) if returned else None


def _returned(module: Module, function: ast.AST) -> list[ast.expr]:
    return [
        child.value
        for child in ast.walk(function)
        if isinstance(child, ast.Return) and child.value is not None and module.function_of(child) is function
    ]


def _stored_value(module: Module, node: ast.Attribute, name: str) -> ast.expr | None:
    """The value of `self.name`, if the class sets it once."""
    owner = module.enclosing(node, ast.ClassDef)
    if owner is None:
        return None
    stores = [
        module.parent(other)
        for other in module.nodes(ast.Attribute)
        if other.attr == name and isinstance(other.ctx, ast.Store) and module.tree.is_within(other, owner)
    ]
    store = stores[0] if len(stores) == 1 else None
    return store.value if isinstance(store, ast.Assign) and len(store.targets) == 1 else None


def _common(options: Iterable[Activation | None]) -> Activation | None:
    found = set(options)
    return next(iter(found)) if len(found) == 1 else None
