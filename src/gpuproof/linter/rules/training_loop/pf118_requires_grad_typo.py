"""`require_grad` is not an attribute of a tensor: Python accepts the assignment silently, and nothing is frozen.

The attribute is `requires_grad`. The parameters are still trained, their gradients and optimizer states still take
GPU memory, and fine-tuning that should only change the last layer changes the whole network.

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

Quiet: an attribute of a custom class, which also reads it

    import torch

    class Layer:
        def __init__(self):
            self.require_grad = False

Quiet: no PyTorch

    import numpy

    numpy.settings.require_grad = False
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span

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
            f"`{node.attr}` is not an attribute of a parameter: `{module.text(node)} = …` has no effect, and nothing is frozen.",
            remedy="Write requires_grad.",
            fix=Fix("Write requires_grad", (Edit(name, "requires_grad"),), safe=True),
        )
