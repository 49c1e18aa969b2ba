"""The last activation of what a PyTorch model returns: raw scores, probabilities, or their logarithms."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Literal

from gpuproof.linter.analysis.call import Call
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition, find_method
from gpuproof.linter.analysis.flow.creations import creations, returned_values
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
    return _of_layers(module, node.func, depth)


def _of_layers(module: Module, node: ast.expr | None, depth: int) -> Activation | None:
    made = creations(module, node)
    return _common(_of_layer(call, depth + 1) for call in made) if made else None


def _is_own(holder: ast.expr) -> bool:
    while isinstance(holder, ast.Attribute):
        holder = holder.value
    return isinstance(holder, ast.Name) and holder.id in ("self", "cls")


def _of_layer(call: Call, depth: int) -> Activation | None:
    """The last activation of what a layer or model returns that a call creates."""
    name = call.name or ""
    if depth > _MAX_DEPTH:
        return None
    if name in _LAYERS:
        return _LAYERS[name]
    if name == "torch.nn.Sequential":
        last = call.node.args[-1] if call.node.args else None
        if isinstance(last, ast.Starred) or call.node.keywords:
            return None
        return _of_layers(call.module, last, depth)
    found = find_definition(call.module, call.node.func)
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
    returned = returned_values(forward)
    return _common(activation_of(module, value, depth + 1) for value in returned) if returned else None


def _common(options: Iterable[Activation | None]) -> Activation | None:
    found = set(options)
    return next(iter(found)) if len(found) == 1 else None
