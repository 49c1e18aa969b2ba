"""`scheduler.step()` runs before `optimizer.step()`: the first learning rate of the schedule is skipped.

Since PyTorch 1.1, the scheduler has to step after the optimizer; in the other order, PyTorch warns once and the whole schedule
is one step early. With warm-up the first step is then taken at a rate that is not the schedule's. It is easily overlooked in
scripts that were written for PyTorch 1.0.

Bad:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(90):
        scheduler.step()  # <-
        for x, y in torch.utils.data.DataLoader([]):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()

Good:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(90):
        for x, y in torch.utils.data.DataLoader([]):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        scheduler.step()

Quiet: not in the first epoch

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    for epoch in range(90):
        if epoch > 0:
            scheduler.step()
        model(torch.ones(4)).sum().backward()
        optimizer.step()

Quiet: the schedule of something else

    import torch

    def sample(model, optimizer, scheduler, noise):
        for t in scheduler.timesteps:
            noise = scheduler.step(model(noise, t), t, noise).prev_sample
            optimizer.step()
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.blocks import always_runs_in, positions
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.training_steps import stepped_optimizer, stepped_schedulers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF137", "scheduler-before-optimizer", Severity.WARNING, needs=("lr_scheduler",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    steps = calls_named(module, "step")
    optimizers = [step for step in steps if stepped_optimizer(step) is not None]
    for scheduler in steps:
        loops = module.loops_around(scheduler.node)
        if not loops or not isinstance(module.parent(scheduler.node), ast.Expr):
            continue
        if not stepped_schedulers(scheduler):
            continue
        inside = calls_within(optimizers, loops[0])
        if inside and all(_comes_first(module, scheduler, step) for step in inside):
            yield rule.hit(
                scheduler.span,
                f"`{module.text(scheduler.node)}` runs before `{module.text(inside[0].node)}`: the first learning rate of the "
                "schedule is skipped.",
                remedy="Call it after the optimizer's step, at the end of the loop.",
            )


def _comes_first(module: Module, scheduler: Call, step: Call) -> bool:
    place = positions(module, scheduler.node, step.node)
    return (
        place is not None
        and place.first < place.second
        and always_runs_in(module, scheduler.node, place.block)
    )
