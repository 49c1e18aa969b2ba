"""A training script sets no seed: two runs with the same settings give different results.

Comparing two settings then needs several runs of each. Seeds make runs similar, not equal: GPU kernels may still differ. The rule is off unless
selected.

Bad:

    import torch

    def main(loader, device):
        model = torch.nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # <-
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Good:

    import torch

    def main(loader, device):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Quiet: another module of the project sets it

    # file: tools.py
    import torch

    def fix(seed):
        torch.manual_seed(seed)
    # file: train.py
    import torch
    from tools import fix

    def main(model, loader):
        fix(3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            model(x).sum().backward()
            optimizer.step()
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF158", "no-seed", Severity.NOTE, when="strict", needs=("backward",))

_SEEDS = re.compile(r"seed", re.IGNORECASE)
_OPTIMIZER = re.compile(r"^torch\.optim\.(\w+\.)?[A-Z]\w+$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or not calls_named(module, "backward"):
        return
    made = next(
        (call for call in all_calls(module) if call.name is not None and _OPTIMIZER.match(call.name)), None
    )
    if made is None or any(uses(other, _SEEDS, "call", "keyword") for other in program_modules(module)):
        return
    yield rule.hit(
        made.span,
        "Nothing sets a seed: two runs with the same settings differ.",
        remedy="Call torch.manual_seed(seed) before the model is created.",
    )
