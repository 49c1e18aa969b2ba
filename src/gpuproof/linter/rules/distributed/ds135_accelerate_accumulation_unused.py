"""The Accelerator is told to accumulate gradients, but the loop never enters `accelerator.accumulate()`.

`gradient_accumulation_steps=8` alone accumulates nothing: the optimizer steps after every batch, and `accelerator.backward()`
still divides each loss by 8, so that every step is an eighth of what the learning rate says. The rule does not report loops
that count micro-batches by hand, and DeepSpeed, which accumulates by itself.
Source: https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation.

Bad:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator(gradient_accumulation_steps=8)  # <-
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(torch.rand(64, 8), batch_size=8))
    for x in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()

Good:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator(gradient_accumulation_steps=8)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, num_workers=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(x).sum())
            optimizer.step()
            optimizer.zero_grad()

Quiet: the loop counts

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=8)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    for index, x in enumerate(torch.rand(64, 8)):
        accelerator.backward(model(x).sum())
        if (index + 1) % 8 == 0:
            optimizer.step()
            optimizer.zero_grad()

Quiet: one step each

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(gradient_accumulation_steps=1)
    model = accelerator.prepare(torch.nn.Linear(8, 1))
    for x in torch.rand(64, 8):
        accelerator.backward(model(x).sum())
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.accelerate import accelerators, has_accelerator_only, method_calls
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule(
    "DS135", "accelerate-accumulation-unused", Severity.WARNING, needs=("gradient_accumulation_steps",)
)

_OTHERS = re.compile(r"(^|\.)(accumulate|no_sync|DeepSpeedPlugin|GradientAccumulationPlugin)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    backwards = method_calls(module, "backward")
    if not backwards or not has_accelerator_only(module) or script_uses(module, _OTHERS, "call", "name"):
        return
    if any(_counts(step.module, step.node) for step in _steps(module)):
        return
    for call in accelerators(module):
        steps = call.argument("gradient_accumulation_steps", 3)
        if call.module is not module or steps.number is None or steps.number <= 1:
            continue
        yield rule.hit(
            call.span,
            f"gradient_accumulation_steps={int(steps.number)} accumulates nothing: accumulate() is never called, and every loss is "
            f"divided by {int(steps.number)}.",
            remedy="Put the step into with accelerator.accumulate(model): or drop the argument.",
            severity=rule.severity if steps.is_known else lowered(rule.severity),
        )


def _steps(script: Module) -> list[Call]:
    return [
        call for module in local_modules(script) for call in calls_named(module, "step") if not call.node.args
    ]


def _counts(module: Module, node: ast.AST) -> bool:
    """Whether a condition around a step decides in which micro-batch it runs."""
    return any(
        isinstance(ancestor, ast.If)
        and "sync_gradients" not in module.text(ancestor.test)
        and any(isinstance(child, (ast.Mod, ast.Compare)) for child in ast.walk(ancestor.test))
        for ancestor in module.tree.ancestors(node)
    )
