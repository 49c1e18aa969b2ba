"""A schedule that counts epochs is stepped for each batch, or one that counts batches for each epoch.

`CosineAnnealingLR(optimizer, T_max=epochs)` that is stepped in the batch loop goes up and down many times within an epoch.
`OneCycleLR(optimizer, steps_per_epoch=len(loader), ...)` that is stepped once an epoch never leaves the first steps of its warm-up,
so the model trains at a tiny learning rate until the end. Neither fails.

Bad:

    import torch

    EPOCHS = 30
    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=EPOCHS)
    for epoch in range(EPOCHS):
        for x, y in torch.utils.data.DataLoader([]):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            scheduler.step()  # <-

Bad: the reverse

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader([])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=10, steps_per_epoch=len(loader))
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        scheduler.step()  # <-

Good:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    loader = torch.utils.data.DataLoader([])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=10, steps_per_epoch=len(loader))
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            scheduler.step()

Quiet: the schedule counts all batches

    import torch

    def main(epochs, loader):
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs * len(loader))
        for epoch in range(epochs):
            for x in loader:
                model(x).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
                scheduler.step()

Quiet: one batch an epoch

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    for epoch in range(100):
        optimizer.zero_grad()
        model(torch.ones(4)).sum().backward()
        optimizer.step()
        scheduler.step()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.training_steps import (
    is_batch_loop,
    stepped_optimizer,
    stepped_schedulers,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF138", "schedule-in-wrong-unit", Severity.WARNING, needs=("lr_scheduler",))

_EPOCHS = re.compile(r"(^|[._])(num_|n_|max_|total_)?epochs?$", re.IGNORECASE)
_STEPS = re.compile(r"len\(|loader|steps|batch|iter", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for step in calls_named(module, "step"):
        loops = module.loops_around(step.node)
        made = stepped_schedulers(step) if loops else None
        if not made or len(made) != 1:
            continue
        schedule, loop = made[0], loops[0]
        inner = [
            other
            for other in calls_within(calls_named(module, "step"), loop)
            if stepped_optimizer(other) is not None
        ]
        if _counts_epochs(schedule) and is_batch_loop(module, loop) and len(loops) > 1:
            if not _is_conditional(module, step, loop):
                yield rule.hit(
                    step.span,
                    f"`{schedule.method}` counts epochs ({_counted(schedule)}), but it is stepped for each batch.",
                    remedy="Step it once at the end of each epoch, or count batches: epochs * len(loader).",
                )
        elif _counts_batches(schedule) and any(
            is_batch_loop(module, each)
            for other in inner
            for each in module.loops_around(other.node)
            if each is not loop and module.tree.is_within(each, loop)
        ):
            yield rule.hit(
                step.span,
                f"`{schedule.method}` counts batches ({_counted(schedule)}), but it is stepped once an epoch: the learning rate "
                "stays at the beginning of its schedule.",
                remedy="Step it after each optimizer.step().",
            )


_COUNTS = {
    "CosineAnnealingLR": ("T_max", 1),
    "LinearLR": ("total_iters", 3),
    "PolynomialLR": ("total_iters", 1),
}


def _counted_node(schedule: Call) -> tuple[str, ast.expr | None]:
    if schedule.method == "OneCycleLR":
        per_epoch = schedule.expression("steps_per_epoch", 4)
        return (
            ("steps_per_epoch", per_epoch)
            if per_epoch is not None
            else ("total_steps", schedule.expression("total_steps", 2))
        )
    name, place = _COUNTS.get(schedule.method, ("", None))
    return name, schedule.expression(name, place) if name else None


def _counted(schedule: Call) -> str:
    name, node = _counted_node(schedule)
    return f"{name}={schedule.module.text(node)}" if node is not None else name


def _counts_epochs(schedule: Call) -> bool:
    _, node = _counted_node(schedule)
    return (
        schedule.method != "OneCycleLR"
        and isinstance(node, (ast.Name, ast.Attribute))
        and _EPOCHS.search(schedule.module.text(node)) is not None
    )


def _counts_batches(schedule: Call) -> bool:
    name, node = _counted_node(schedule)
    if node is None:
        return False
    if schedule.method == "OneCycleLR" and name == "steps_per_epoch":
        return not (isinstance(node, ast.Constant) and node.value == 1)
    made = schedule.module.origin(node)
    return isinstance(made, ast.BinOp) and _STEPS.search(schedule.module.text(made)) is not None


def _is_conditional(module: Module, step: Call, loop: ast.AST) -> bool:
    """Whether a condition inside the loop decides whether the scheduler steps."""
    around = module.enclosing(step.node, ast.If)
    return around is not None and module.tree.is_within(around, loop)
