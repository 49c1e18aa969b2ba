"""The script trains under Accelerate, but calls PyTorch's function where Accelerate has its own.

`accelerator.backward(loss)` scales the loss in fp16, divides it in gradient accumulation and hands it to DeepSpeed;
`loss.backward()` does none of that. With `mixed_precision="fp16"` the first step fails with "No inf checks were recorded for
this optimizer", under DeepSpeed no gradient is reduced. `torch.nn.utils.clip_grad_norm_` clips gradients that are still scaled,
by a factor of 65,536 at the start, so that next to nothing is learned: `accelerator.clip_grad_norm_` unscales them.
Source: https://huggingface.co/docs/accelerate/package_reference/accelerator.

Bad:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()  # <-
        optimizer.step()

Fixed:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        optimizer.zero_grad()
        loss = model(x).sum()
        accelerator.backward(loss)
        optimizer.step()

Bad: clipping in fp16

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator(mixed_precision="fp16")
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(torch.rand(64, 8), batch_size=8))
    for x in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-
        optimizer.step()

Good:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator(mixed_precision="fp16")
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, num_workers=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

Quiet: a path without Accelerate

    import torch
    from accelerate import Accelerator

    def train(model, optimizer, x, accelerator=None):
        loss = model(x).sum()
        if accelerator is not None:
            accelerator.backward(loss)
        else:
            loss.backward()
        optimizer.step()

    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(8, 1))
    train(model, accelerator.prepare(torch.optim.SGD(model.parameters(), lr=0.1)), torch.ones(8), accelerator)

Quiet: the accelerator only logs

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    for x in torch.rand(64, 8):
        model(x).sum().backward()
    accelerator.print("done")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import replace_node
from gpuproof.linter.knowledge.distribution.accelerate import (
    accelerators,
    has_accelerator_only,
    is_accelerated,
    method_calls,
    mixed_precision,
    prepare_calls,
)
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("DS134", "accelerate-bypassed", Severity.WARNING, needs=("Accelerator",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not accelerators(module) or not has_accelerator_only(module):
        return
    prepares = prepare_calls(module)
    if not prepares:
        return
    precision = mixed_precision(module)
    if not method_calls(module, "backward"):
        yield from _backwards(module, precision)
    if precision == "fp16":
        yield from _clips(module)


def _backwards(script: Module, precision: str | None) -> Hits:
    name = next(
        (
            home.text(call.receiver)
            for call in prepare_calls(script)
            if (home := call.module) and isinstance(call.receiver, (ast.Name, ast.Attribute))
        ),
        "accelerator",
    )
    for module in local_modules(script):
        for call in calls_named(module, "backward"):
            if call.receiver is None or call.name is not None or call.node.args:
                continue
            if not is_accelerated(module, call.node):
                continue
            loss = module.text(call.receiver)
            fails = precision == "fp16"
            same = all(each.module is module for each in prepare_calls(script))
            simple = same and not call.node.keywords
            yield rule.hit(
                call.span,
                f"`{module.text(call.node)}` bypasses Accelerate: "
                + (
                    "in fp16 the loss is not scaled, and the first step fails."
                    if fails
                    else "no loss scaling, gradient accumulation or DeepSpeed."
                ),
                remedy=f"Use {name}.backward({loss}).",
                severity=Severity.ERROR if fails else rule.severity,
                fix=Fix(
                    f"Use {name}.backward()", (replace_node(module, call.node, f"{name}.backward({loss})"),)
                )
                if simple
                else None,
            )
            return


def _clips(script: Module) -> Hits:
    for module in local_modules(script):
        for call in calls_to(
            module, "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_"
        ):
            if method_calls(script, "unscale_gradients"):
                continue
            yield rule.hit(
                call.span,
                "The gradients are still scaled for fp16 when they are clipped: next to nothing of them remains.",
                remedy="Use accelerator.clip_grad_norm_(model.parameters(), max_norm).",
            )
