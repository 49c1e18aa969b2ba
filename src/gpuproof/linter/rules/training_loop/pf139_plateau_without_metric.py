"""`ReduceLROnPlateau.step()` without the metric is a TypeError, after the whole first epoch.

This scheduler lowers the learning rate when a metric stops improving, so its `step` needs the metric: `scheduler.step(val_loss)`.
Other schedulers are stepped without arguments, and the call is often left as it was when the scheduler was changed.

Bad:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    for epoch in range(90):
        for x, y in torch.utils.data.DataLoader([]):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        scheduler.step()  # <-

Good:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
    for epoch in range(90):
        total = 0.0
        for x, y in torch.utils.data.DataLoader([]):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step(total)

Quiet: one of several schedulers

    import torch

    def build(optimizer, name):
        if name == "plateau":
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        else:
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        scheduler.step()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.training.training_steps import stepped_schedulers
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF139", "plateau-without-metric", Severity.ERROR, needs=("step",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch"):
        return
    for step in calls_named(module, "step"):
        if step.node.args or step.node.keywords:
            continue
        made = stepped_schedulers(step)
        if made and all(call.method == "ReduceLROnPlateau" for call in made):
            yield rule.hit(
                step.span,
                f"`{module.text(step.node)}` fails: the step of ReduceLROnPlateau needs the metric that it watches (TypeError).",
                remedy=f"Pass it: {module.text(step.node.func)}(validation_loss).",
            )
