"""Gradients are clipped after the optimizer has used them: the limit has no effect.

`clip_grad_norm_` changes the gradients in place, so it has to run between `backward()` and `step()`. After `step()`, it changes
gradients that the next `zero_grad()` clears. The training diverges as if there were no clipping.

Bad:

    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-

Good:

    import torch

    def train(model, loader, optimizer, device):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(x.to(device)), y.to(device)).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()

Quiet: before the next step of another optimizer

    import torch

    def train(actor, critic, loader, actor_optimizer, critic_optimizer):
        for batch in loader:
            critic_optimizer.zero_grad()
            critic(batch).mean().backward()
            critic_optimizer.step()
            actor_optimizer.zero_grad()
            actor(batch).mean().backward()
            torch.nn.utils.clip_grad_norm_(actor.parameters(), 1.0)
            actor_optimizer.step()

Quiet: gradients add up until the next step

    import torch

    def train(model, loader, optimizer):
        for index, batch in enumerate(loader):
            model(batch).mean().backward()
            if index % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()
            torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.blocks import always_runs_in, block_of
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.knowledge.training.training_steps import stepped_optimizer
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF136", "clipped-after-step", Severity.WARNING, needs=("clip_grad",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    clips = calls_to(module, "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")
    if not clips or is_test(module):
        return
    for clip in clips:
        step = _step_before(module, clip)
        if step is not None:
            yield rule.hit(
                clip.span,
                f"`{clip.method}` comes after `{module.text(step.node)}`, which has used the gradients: they are not clipped.",
                remedy=f"Call {clip.method} between backward() and {module.text(step.node)}.",
            )


def _step_before(module: Module, clip: Call) -> Call | None:
    """The step that has used the gradients, if clipping follows it in the same block of a loop, and no other step does."""
    block = block_of(module, clip.node)
    loops = module.loops_around(clip.node)
    if not block or not loops:
        return None
    statement = module.tree.statement(clip.node)
    index = block.index(statement) if statement in block else 0
    if _inside(module, block[index + 1 :], "backward", "step"):
        return None
    before = block[:index]
    backwards = _inside(module, before, "backward")
    steps = [
        step
        for step in _inside(module, before, "step")
        if stepped_optimizer(step) is not None and always_runs_in(module, step.node, block)
    ]
    clears = calls_within(calls_named(module, "zero_grad"), loops[0])
    if len(steps) != 1 or len(backwards) != 1 or not clears:
        return None
    if not all(always_runs_in(module, clear.node, block) for clear in clears):
        return None
    return steps[0] if backwards[0].node.lineno < steps[0].node.lineno else None


def _inside(module: Module, statements: list[ast.stmt], *names: str) -> list[Call]:
    return [call for node in statements for call in calls_within(calls_named(module, *names), node)]
