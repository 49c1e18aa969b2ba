"""Gradients should add up over several batches, but `zero_grad()` clears them at each batch.

The optimizer steps after every n-th batch, with the gradients of that batch alone: the other n-1 batches are computed for nothing,
and with `loss / n` the learning rate is n times too small as well. `zero_grad()` belongs after `step()`, under the same condition.

Bad:

    import torch

    def train(model, loader, optimizer, device, accumulate=4):
        for index, (x, y) in enumerate(loader):
            optimizer.zero_grad()  # <-
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            (loss / accumulate).backward()
            if (index + 1) % accumulate == 0:
                optimizer.step()

Good:

    import torch

    def train(model, loader, optimizer, device, accumulate=4):
        optimizer.zero_grad()
        for index, (x, y) in enumerate(loader):
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            (loss / accumulate).backward()
            if (index + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()

Quiet: several passes before one step

    import torch

    def train(model, loader, optimizer, accumulate=4):
        for chunks in loader:
            optimizer.zero_grad()
            for index, chunk in enumerate(chunks):
                model(chunk).mean().backward()
                if (index + 1) % accumulate == 0:
                    optimizer.step()

Quiet: the condition is about something else

    import torch

    def train(model, loader, optimizer, scaler):
        for x in loader:
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            if torch.isfinite(loss):
                optimizer.step()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.blocks import always_runs_in
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.training_steps import counted_condition, stepped_optimizer
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF141", "accumulation-cleared-each-batch", Severity.ERROR, needs=("zero_grad",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for step in calls_named(module, "step"):
        loops = module.loops_around(step.node)
        optimizer = stepped_optimizer(step) if loops else None
        around = module.enclosing(step.node, ast.If)
        if optimizer is None or around is None or not module.tree.is_within(around, loops[0]):
            continue
        condition = counted_condition(module, around)
        if condition is None or not module.tree.is_within_any(step.node, set(around.body)):
            continue
        clear = _cleared_each_time(module, loops[0], optimizer)
        if clear is not None:
            yield rule.hit(
                clear.span,
                f"`{module.text(clear.node)}` runs for each batch, but `{module.text(step.node)}` only if "
                f"`{module.text(condition)}`: the gradients of the other batches are lost.",
                remedy=f"Call {module.text(clear.node.func)}() after {module.text(step.node)}, under the same condition.",
            )


def _cleared_each_time(
    module: Module, loop: ast.For | ast.AsyncFor | ast.While, optimizer: ast.expr
) -> Call | None:
    """The call that clears the gradients of an optimizer each time a loop runs, where that computes gradients once."""
    backwards = calls_within(calls_named(module, "backward"), loop)
    if len(backwards) != 1 or not always_runs_in(module, backwards[0].node, loop.body):
        return None
    return next(
        (
            clear
            for clear in calls_within(calls_named(module, "zero_grad"), loop)
            if clear.receiver is not None
            and module.text(clear.receiver) == module.text(optimizer)
            and always_runs_in(module, clear.node, loop.body)
        ),
        None,
    )
