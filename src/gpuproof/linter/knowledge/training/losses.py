"""Calls of PyTorch's losses, and the device of what a model returns to them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuproof.linter.analysis.call import Call, all_calls
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.flow.model import Source
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types import UNKNOWN_TYPE, TypeKind, type_of
from gpuproof.linter.analysis.types.placement import is_moved

_LOSS_FUNCTION = re.compile(
    r"^torch\.nn\.functional\.(\w+_loss|cross_entropy|binary_cross_entropy\w*|kl_div)$"
)
_LOSS_CLASS = re.compile(r"^torch\.nn\.\w*Loss$")
_SHAPES = frozenset(
    {"squeeze", "unsqueeze", "view", "reshape", "flatten", "float", "sigmoid", "softmax", "log_softmax"}
)
_MAX_DEPTH = 8


def loss_calls(module: Module) -> list[Call]:
    """The calls of losses of PyTorch with an output and its labels."""
    found: list[Call] = []
    for call in all_calls(module):
        if len(call.node.args) < 2:
            continue
        if call.name is not None:
            if _LOSS_FUNCTION.match(call.name):
                found.append(call)
            continue
        made = (
            creations(module, call.node.func)
            if isinstance(call.node.func, (ast.Name, ast.Attribute, ast.Call))
            else []
        )
        if made and all(_LOSS_CLASS.match(created.name or "") for created in made):
            found.append(call)
    return found


def weighted_losses(module: Module) -> Iterator[tuple[Call, Source]]:
    """The calls of losses whose class weights are certainly on the CPU, with the weights."""
    for call in loss_calls(module):
        if call.name is not None:
            continue
        made = creations(module, call.node.func)
        if len(made) != 1 or is_moved(module, made) != "no":
            continue
        given = made[0].expression("weight") or made[0].expression("pos_weight")
        found = type_of(made[0].module, given)
        chain = type_of(module, call.node.func)
        if given is not None and (found.kind, found.device, chain.device) == (TypeKind.TENSOR, "cpu", "cpu"):
            yield call, Source(made[0].module, given)


def output_device(module: Module, node: ast.expr, depth: int = 0) -> str | None:
    """The device of what a model returns, through names and methods of the tensor; None if it is unknown."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(node, ast.Name):
        bindings = module.reaching(node)
        devices = {
            output_device(module, binding.value, depth + 1)
            if binding.kind == "assign" and binding.value
            else None
            for binding in bindings
        }
        return devices.pop() if len(devices) == 1 else None
    if not isinstance(node, ast.Call):
        return None
    model = (
        type_of(module, node.func)
        if isinstance(node.func, (ast.Name, ast.Attribute)) and module.qualified(node.func) is None
        else UNKNOWN_TYPE
    )
    if model.kind is not None:
        is_moved = model.kind is TypeKind.MODULE and model.device == "gpu"
        # With both on the GPU; the other cases are reported at this call.
        return "gpu" if is_moved and node.args and type_of(module, node.args[0]).device == "gpu" else None
    if isinstance(node.func, ast.Attribute) and node.func.attr in _SHAPES:
        return output_device(module, node.func.value, depth + 1)
    return None
