"""Gradients add up over n batches, and those of the last, incomplete group are never used, or leak into the next epoch.

With 1000 batches and n = 16, the gradients of the last 8 batches of each epoch are either cleared or counted to the next epoch's first
step. Few batches are affected, so the rule is off unless selected.

Bad:

    import torch

    def train(model, loader, optimizer, device, accumulate=4):
        for index, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            (loss / accumulate).backward()
            if (index + 1) % accumulate == 0:
                optimizer.step()  # <-
                optimizer.zero_grad()

Good:

    import torch

    def train(model, loader, optimizer, device, accumulate=4):
        for index, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            (loss / accumulate).backward()
            if (index + 1) % accumulate == 0 or index + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()

Quiet: one more step after the loop

    import torch

    def train(model, loader, optimizer, accumulate=4):
        for index, x in enumerate(loader):
            (model(x).mean() / accumulate).backward()
            if (index + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        optimizer.step()
        optimizer.zero_grad()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.training_steps import (
    counted_condition,
    is_batch_loop,
    stepped_optimizer,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF151", "last-batches-not-stepped", Severity.NOTE, when="strict", needs=("zero_grad",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    steps = [call for call in calls_named(module, "step") if stepped_optimizer(call) is not None]
    for step in steps:
        loops = module.loops_around(step.node)
        branch = module.enclosing(step.node, ast.If)
        if not loops or branch is None or not module.tree.is_within(branch, loops[0]):
            continue
        if isinstance(branch.test, ast.BoolOp) or counted_condition(module, branch) is None:
            continue
        if not is_batch_loop(module, loops[0]) or any(
            other.node.lineno > (loops[0].end_lineno or 0) for other in steps if other is not step
        ):
            continue
        yield rule.hit(
            step.span,
            f"The last batches of an epoch are not stepped unless their number is a multiple: `{module.text(branch.test)}`.",
            remedy="Add `or index + 1 == len(loader)` to the condition.",
        )
