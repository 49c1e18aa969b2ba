"""A learning-rate scheduler is created and never stepped: the learning rate stays as it is.

Nothing calls `scheduler.step()`, and nothing else gets the scheduler. A warm-up starts at its first rate, which may be a thousandth of the
intended one, and stays there for the whole run; a decay never happens.

Bad:

    import torch

    def train(model, loader, device):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=90)  # <-
        for epoch in range(90):
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
            print(epoch, scheduler.get_last_lr())

Good:

    import torch

    def train(model, loader, device):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=90)
        for epoch in range(90):
            for x, y in loader:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
                optimizer.step()
            scheduler.step()

Quiet: another function, or another scheduler, gets it

    import torch

    def build(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1)
        decay = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], [5])
        model(torch.ones(4)).sum().backward()
        return optimizer, schedule
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager, is_test
from gpuproof.linter.knowledge.training.object_uses import uses_of_created
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF140", "scheduler-never-stepped", Severity.WARNING, needs=("lr_scheduler", "_schedule"))

_SCHEDULER = re.compile(
    r"^torch\.optim\.lr_scheduler\.[A-Z]\w+$|^transformers\.(optimization\.)?get_(\w+_)?schedule\w*$"
)
_LEAVES_ALONE = frozenset(
    {
        "get_last_lr",
        "get_lr",
        "state_dict",
        "load_state_dict",
        "last_epoch",
        "base_lrs",
        "optimizer",
        "print_lr",
    }
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module) or not calls_named(module, "backward") or imports_device_manager(module):
        return
    for made in all_calls(module):
        if made.name is None or not _SCHEDULER.match(made.name):
            continue
        used = uses_of_created(module, made)
        if used is None or used.escapes or used.passed_to or not used.methods <= _LEAVES_ALONE:
            continue
        yield rule.hit(
            made.span,
            f"Nothing steps this `{made.method}`: the learning rate never changes.",
            remedy="Call its step() after optimizer.step(), for each batch or epoch as the schedule counts.",
        )
