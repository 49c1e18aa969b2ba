"""Where the batches of a loader are: on the CPU, unless its own functions or its dataset may move them."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.call import call_of
from gpuproof.linter.analysis.flow.creations import created_classes, creations
from gpuproof.linter.analysis.known_types import MOVERS
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types.libraries import moved_to, moves_inside
from gpuproof.linter.analysis.types.model import Device, InferredType


def batch_device(module: Module, loader: ast.expr | None) -> Device | None:
    """The device of what a loader yields; None if it may be a GPU."""
    for made in creations(module, loader):
        if made.expression("collate_fn") is not None:
            return None
        dataset = made.expression("dataset", 0)
        for owner in created_classes(made.module, dataset):
            assert isinstance(owner.node, ast.ClassDef)
            if moves_inside(owner.module, owner.node):
                return None
    return "cpu"


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
