"""Gradients are computed, and nothing calls the optimizer's `step()`: the weights never change.

The loop runs `backward()` on every batch at full cost, and the model at the end is the one from the beginning.

Bad:

    import torch

    def train(model, loader, device):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # <-
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()

Good:

    import torch

    def train(model, loader, device):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Quiet: a scaler steps it, or it is passed on

    import torch
    from engine import run

    def train(model, loader, scaler):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        other = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in loader:
            scaler.scale(model(x).sum()).backward()
            scaler.step(optimizer)
            optimizer.zero_grad()
        run(model, other)
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_test
from gpuproof.linter.knowledge.training.object_uses import uses_of_created
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF142", "optimizer-never-stepped", Severity.ERROR, needs=("backward",))

_OPTIMIZER = re.compile(r"^torch\.optim\.(\w+\.)?[A-Z]\w+$")
_SCHEDULER = re.compile(r"^torch\.optim\.lr_scheduler\.[A-Z]\w+$")
_LEAVES_ALONE = frozenset({"zero_grad", "state_dict", "load_state_dict", "param_groups", "state"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module) or imports_device_manager(module):
        return
    for made in all_calls(module):
        if (
            not made.method[:1].isupper()
            or made.name is None
            or not _OPTIMIZER.match(made.name)
            or _SCHEDULER.match(made.name)
        ):
            continue
        used = uses_of_created(module, made)
        if (
            used is None
            or used.escapes
            or "zero_grad" not in used.methods
            or not used.methods <= _LEAVES_ALONE
        ):
            continue
        if not all(_SCHEDULER.match(module.qualified(call.func) or "") for call in used.passed_to):
            continue
        function = module.function_of(made.node)
        around = function if function is not None else module.tree.root
        trained = [
            call
            for call in calls_within(calls_named(module, "backward"), around)
            if module.function_of(call.node) is function and module.loops_around(call.node)
        ]
        if not trained or any(calls_within(calls_named(module, "step"), around)):
            continue
        yield rule.hit(
            made.span,
            f"Nothing steps this `{made.method}`: `{module.excerpt(trained[0].node, 50)}` computes gradients, and the weights never change.",
            remedy="Call its step() after backward().",
        )
