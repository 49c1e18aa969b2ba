"""`require_grad` is no attribute of a tensor: Python takes the assignment silently, and nothing is frozen.

What was meant is `requires_grad`. The parameters go on being trained, their gradients and optimizer states take GPU
memory all the same, and the fine-tuning that was to touch the last layer alone changes the whole network.

Bad:

    import torch

    model = torch.nn.Linear(4, 2)
    for parameter in model.parameters():
        parameter.require_grad = False  # <-

Fixed:

    import torch

    model = torch.nn.Linear(4, 2)
    for parameter in model.parameters():
        parameter.requires_grad = False

Good:

    import torch

    model = torch.nn.Linear(4, 2)
    for parameter in model.parameters():
        parameter.requires_grad = False

Quiet: an attribute of its own class, which reads it again

    import torch

    class Layer:
        def __init__(self):
            self.require_grad = False

Quiet: no PyTorch

    import numpy

    numpy.settings.require_grad = False
"""

import ast

from gpuproof.check.analysis.module import Module
from gpuproof.check.project import Project
from gpuproof.check.rule import Edit, Fix, Hits, Rule
from gpuproof.check.source.span import Span
from gpuproof.findings import Severity

rule = Rule(
    "PF118", "requires-grad-typo", Severity.ERROR, needs=("require_grad", "requires_grads", "require_grads")
)

_TYPOS = frozenset({"require_grad", "requires_grads", "require_grads"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch"):
        return
    written = [node for node in module.nodes(ast.Attribute) if node.attr in _TYPOS]
    if any(isinstance(node.ctx, ast.Load) for node in written):
        return
    for node in written:
        if not isinstance(node.ctx, ast.Store) or (
            isinstance(node.value, ast.Name) and node.value.id == "self"
        ):
            continue
        whole = module.span(node)
        name = Span(
            whole.unit, whole.end_line, whole.end_column - len(node.attr), whole.end_line, whole.end_column
        )
        yield rule.hit(
            whole,
            f"`{node.attr}` is no attribute of a parameter: `{module.text(node)} = …` changes nothing, and nothing is frozen.",
            remedy="Write requires_grad.",
            fix=Fix("Write requires_grad", (Edit(name, "requires_grad"),), safe=True),
        )
