"""`cudnn.deterministic = True` or `cudnn.benchmark = False` makes convolutions slower, for reproducible results.

With `benchmark = True`, cuDNN measures its algorithms for each shape once and takes the fastest. Keep the slow settings where
runs must be identical; the rule is strict. Source: PyTorch's notes on reproducibility.

Bad:

    import torch

    torch.backends.cudnn.deterministic = True  # <-
    torch.backends.cudnn.benchmark = False  # <-

Good:

    import torch

    torch.backends.cudnn.benchmark = True

Quiet: the user chooses

    import torch

    torch.backends.cudnn.deterministic = args.deterministic
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF109", "cudnn-slow-settings", Severity.NOTE, when="strict", needs=("cudnn",))

_SLOW = {"torch.backends.cudnn.deterministic": True, "torch.backends.cudnn.benchmark": False}


@rule.module
def check(module: Module, _: Project) -> Hits:
    for statement in module.nodes(ast.Assign):
        value = statement.value
        for target in statement.targets:
            name = module.qualified(target) if isinstance(target, ast.Attribute) else None
            if name in _SLOW and isinstance(value, ast.Constant) and value.value is _SLOW[name]:
                yield rule.hit(
                    module.span(statement),
                    f"`{module.text(statement)}` makes convolutions slower.",
                    remedy="Set torch.backends.cudnn.benchmark = True, unless runs must be identical.",
                )
