"""`zero_grad()` between `backward()` and `step()` clears the gradients before the optimizer uses them: nothing is learned.

The loss is computed, its gradients too, and the optimizer then steps with zeros (or with None, and skips all parameters).
The loss stays where it started for the whole run, and no error says why. `zero_grad()` belongs before `backward()`, or after
`step()`.

Bad:

    import torch

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.zero_grad()  # <-
        optimizer.step()

Bad: in a function, with mixed precision

    import torch

    def train(model, loader, optimizer, scaler, device):
        for x, y in loader:
            with torch.autocast("cuda"):
                loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            scaler.scale(loss).backward()
            optimizer.zero_grad(set_to_none=True)  # <-
            scaler.step(optimizer)
            scaler.update()

Good:

    import torch

    device = torch.device("cuda")
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in torch.utils.data.DataLoader([]):
        loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

Quiet: another backward follows, as in a GAN

    import torch

    def step(d_loss, g_loss, d_optimizer, g_optimizer):
        d_optimizer.zero_grad()
        d_loss().backward()
        d_optimizer.step()
        g_optimizer.zero_grad()
        g_loss().backward()
        g_optimizer.step()

Quiet: the gradients are kept and put back

    import torch

    def step(model, loss, optimizer):
        loss.backward()
        kept = [p.grad.clone() for p in model.parameters()]
        optimizer.zero_grad()
        for p, grad in zip(model.parameters(), kept):
            p.grad = grad
        optimizer.step()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.blocks import always_runs_in, positions
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import changes_gradients, is_test
from gpuproof.linter.knowledge.training.training_steps import stepped_optimizer
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF135", "gradients-cleared-before-step", Severity.ERROR, needs=("backward",))

_KEEPS = re.compile(
    r"^(print|float|int|len|str|format|item|update|append|log|info|debug|unscale_|set_postfix|set_description|step|mean|sum|"
    r"detach|cpu|clip_grad_norm_|clip_grad_value_|parameters|add_scalar|size|zero_grad|time|perf_counter)$"
)
"""Calls between clearing and stepping that certainly compute no gradients."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    clears = [call for call in calls_named(module, "zero_grad") if call.receiver is not None]
    if not clears or is_test(module):
        return
    backwards = calls_named(module, "backward")
    for step in calls_named(module, "step"):
        optimizer = stepped_optimizer(step)
        if optimizer is None:
            continue
        for clear in clears:
            if clear.receiver is None or module.text(clear.receiver) != module.text(optimizer):
                continue
            backward = _cleared(module, backwards, clear, step)
            if backward is None:
                continue
            yield rule.hit(
                clear.span,
                f"`{module.text(clear.node)}` clears the gradients that `{module.text(backward.node.func)}` has computed before "
                f"`{module.text(step.node)}` uses them: the model learns nothing.",
                remedy=f"Call {module.text(clear.node.func)}() before backward(), or after step().",
            )


def _cleared(module: Module, backwards: list[Call], clear: Call, step: Call) -> Call | None:
    """The backward whose gradients are cleared before the step; None if there is none, or a later one follows."""
    place = positions(module, clear.node, step.node)
    if place is None or place.first >= place.second:
        return None
    if not always_runs_in(module, clear.node, place.block):
        return None
    between = place.block[place.first + 1 : place.second + 1]
    calls = [call for node in between for call in calls_within(all_calls(module), node) if call is not step]
    if not all(_KEEPS.match(call.method) for call in calls) or changes_gradients(
        module, list[ast.AST](between)
    ):
        return None
    before = place.block[: place.first]
    found = [
        call
        for node in before
        for call in calls_within(backwards, node)
        if always_runs_in(module, call.node, place.block)
    ]
    steps = [call for node in before for call in calls_within(calls_named(module, "step"), node)]
    last = found[-1] if found else None
    # The gradients were used by an earlier step.
    if last is None or any(other.node.lineno > last.node.lineno for other in steps):
        return None
    return last
