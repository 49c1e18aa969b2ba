"""A script under Accelerate moves tensors to a GPU with a fixed number, which is the same in every process.

Accelerate gives each process a GPU, `accelerator.device`, and moves models and batches there. `.to("cuda:0")` or `.cuda(0)` moves
them to the first GPU in every process: all but the first fail with "Expected all tensors to be on the same device", or all of
them fill the memory of one GPU. Plain `"cuda"` is the process's own GPU, and is not reported.

Bad:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(torch.rand(64, 8), batch_size=8))
    for x in loader:
        x = x.to(device)  # <-
        accelerator.backward(model(x).sum())
        optimizer.step()

Bad: moved already

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model, loader = accelerator.prepare(torch.nn.Linear(8, 1), DataLoader(torch.rand(64, 8), batch_size=8))
    for x in loader:
        accelerator.backward(model(x.cuda()).sum())  # <-

Good:

    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(torch.rand(64, 8), batch_size=8, num_workers=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x in loader:
        optimizer.zero_grad()
        accelerator.backward(model(x).sum())
        optimizer.step()

Quiet: the device of the process

    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    device = accelerator.device
    model = accelerator.prepare(torch.nn.Linear(8, 1))
    for x in torch.rand(64, 8):
        accelerator.backward(model(x.to(device)).sum() + model(x.to("cuda")).sum())
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, origin_call
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.distribution.accelerate import (
    accelerators,
    has_accelerator_only,
    is_from_prepare,
    prepare_calls,
)
from gpuproof.linter.knowledge.distribution.entries import iterated
from gpuproof.linter.knowledge.distribution.rank_conditions import side_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS137", "accelerate-fixed-gpu", Severity.WARNING, needs=("Accelerator",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not accelerators(module) or not has_accelerator_only(module) or not prepare_calls(module):
        return
    gpus = [gpus_per_host(project, job) for job in project.jobs_running(module)]
    if gpus and all(count is not None and count < 2 for count in gpus):
        return
    yield from _again(module)
    for home in local_modules(module):
        for call in calls_named(home, "to", "cuda"):
            number = _fixed_gpu(call)
            if number is None or side_of(home, call.node) is not None:
                continue
            yield rule.hit(
                call.span,
                f"`{home.text(call.node)}` is on GPU {number} in every process, not on the GPU of its process.",
                remedy="Use accelerator.device, or remove it: prepare() moves models and batches.",
            )
            return


def _again(script: Module) -> Hits:
    """The moves of batches that a prepared loader has moved already."""
    for home in local_modules(script):
        for call in calls_named(home, "cuda"):
            if call.receiver is None or call.name is not None or call.expression("device", 0) is not None:
                continue
            loop = next((loop for loop in home.loops_around(call.node) if isinstance(loop, ast.For)), None)
            if loop is None or not is_from_prepare(home, iterated(home, loop.iter)):
                continue
            names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            if not isinstance(call.receiver, ast.Name) or call.receiver.id not in names:
                continue
            yield rule.hit(
                call.span,
                f"The prepared loader has moved `{home.text(call.receiver)}` to the GPU of its process already.",
                remedy="Remove it.",
                severity=Severity.NOTE,
            )
            return


def _fixed_gpu(call: Call) -> int | None:
    target = call.expression("device", 0)
    if target is None or call.receiver is None or call.name is not None:
        return None
    made = origin_call(call.module, target)
    if made is not None and made.name == "torch.device":
        if len(made.node.args) != 1:
            return None
        target = made.node.args[0]
    value = evaluate(call.module, target)
    if value.certainty != "known":
        return None
    texts = [text for text in value.texts if text.startswith("cuda:") and text[5:].isdigit()]
    if texts and all(text in texts or text == "cpu" for text in value.texts):
        return int(texts[0][5:])
    is_number = isinstance(target, ast.Constant) and call.method == "cuda" and value.number is not None
    return int(value.number or 0) if is_number else None
