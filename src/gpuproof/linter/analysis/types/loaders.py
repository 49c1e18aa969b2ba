"""Where the batches of a loader are: on the CPU, unless its own functions or its dataset may move them."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.call import Call, call_of
from gpuproof.linter.analysis.flow.creations import created_classes, creations
from gpuproof.linter.analysis.flow.sources import targets
from gpuproof.linter.analysis.known_types import MOVERS, TENSOR_METHODS
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.types.libraries import moved_to, moves_inside
from gpuproof.linter.analysis.types.model import Device, InferredType


def batch_device(module: Module, loader: ast.expr | None) -> Device | None:
    """The device of what a loader yields; None if it may be a GPU."""
    for made in creations(module, loader):
        collate = made.expression("collate_fn")
        if collate is not None and not only_collates(made.module, collate):
            return None
        dataset = made.expression("dataset", 0)
        if any(_holds_moved(tensors) for tensors in creations(made.module, dataset)):
            return None
        for owner in created_classes(made.module, dataset):
            assert isinstance(owner.node, ast.ClassDef)
            if moves_inside(owner.module, owner.node):
                return None
    return "cpu"


def _holds_moved(made: Call) -> bool:
    """Whether a dataset gets tensors that may be on a GPU: `TensorDataset(x.to(device), y)`."""
    if made.name not in ("torch.utils.data.TensorDataset", "torch.utils.data.dataset.TensorDataset"):
        return False
    module = made.module
    values: list[ast.AST | None] = [*made.node.args]
    values += [
        binding.value
        for name in made.node.args
        if isinstance(name, ast.Name)
        for binding in module.reaching(name)
    ]
    return any(
        isinstance(node, ast.Call)
        and (callee_name(node) in MOVERS or any(keyword.arg == "device" for keyword in node.keywords))
        for value in values
        if value is not None
        for node in ast.walk(value)
    )


_PLAIN = frozenset(
    {"tuple", "list", "zip", "dict", "len", "max", "min", "sorted", "range", "enumerate", "map"}
)
_OF_TORCH = frozenset(
    {"stack", "cat", "tensor", "as_tensor", "zeros", "ones", "default_collate", "pad_sequence"}
)
_OF_CONTAINERS = frozenset({"append", "extend", "items", "keys", "values", "size", "zero_", "fill_"})


def only_collates(module: Module, node: ast.expr) -> bool:
    """Whether a function for batches certainly leaves tensors where they are: `lambda batch: tuple(zip(*batch))`."""
    if isinstance(node, ast.Lambda):
        return _moves_nothing(module, node)
    made = targets(module, node)
    return bool(made) and all(
        not isinstance(each.node, ast.ClassDef) and _moves_nothing(each.module, each.node) for each in made
    )


def _moves_nothing(module: Module, function: ast.AST) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.keyword) and node.arg == "device":
            return False
        if not isinstance(node, ast.Call):
            continue
        dotted = module.qualified(node.func)
        name = (dotted or "").rpartition(".")[2]
        match node.func:
            case ast.Name(id=plain) if plain in _PLAIN:
                pass
            case ast.Attribute(attr=method) if dotted is None and method in TENSOR_METHODS | _OF_CONTAINERS:
                pass
            case _ if (dotted or "").startswith("torch.") and name in _OF_TORCH:
                pass
            case _:
                return False
    return True


def device_after_stores(module: Module, node: ast.Name, batch: InferredType) -> Device | None:
    """The device of a batch of which items are replaced: `batch[key] = batch[key].to(device)`."""
    device = batch.device
    bindings = module.reaching(node)
    for use in module.tree.uses_of(node.id):
        item = module.parent(use)
        if not isinstance(item, ast.Subscript) or not isinstance(item.ctx, ast.Store):
            continue
        statement = module.parent(item)
        if not any(binding in bindings for binding in module.reaching(use)):
            continue
        value = statement.value if isinstance(statement, ast.Assign) else None
        call = call_of(module, value) if value is not None else None
        is_move = call is not None and call.method in MOVERS
        device = moved_to(module, call, batch) if call is not None and is_move else None
    return device
