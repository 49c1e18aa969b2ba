"""Where the batches of a loader are: on the CPU, unless its own functions or its dataset may move them."""

from __future__ import annotations

import ast

from gpuproof.linter.analysis.flow.creations import created_classes, creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types.libraries import moves_inside
from gpuproof.linter.analysis.types.model import Device


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
