"""A gradient scaler that is never updated, or gradients that are clipped before they are unscaled.

`GradScaler` multiplies the loss so that float16 gradients do not underflow. Without `update()` the factor never
changes and the next `step` is rejected; without `unscale_` the limit is compared with scaled gradients, about 65536
times too large, so that nearly every step is clipped to almost nothing. See PyTorch's automatic mixed precision
examples.

Bad: never updated

    import torch

    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    for x in range(3):
        scaler.scale(model(torch.ones(4).cuda()).sum()).backward()
        scaler.step(optimizer)  # <-

Bad: a function gets the scaler

    import torch

    def train(model, optimizer, scaler):
        for x in range(3):
            scaler.scale(model(torch.ones(4).cuda()).sum()).backward()
            scaler.step(optimizer)  # <-

    model = torch.nn.Linear(4, 1).cuda()
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cuda"))

Bad: clipped while scaled

    import torch

    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in range(3):
        scaler.scale(model(torch.ones(4).cuda()).sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # <-
        scaler.step(optimizer)
        scaler.update()

Good:

    import torch

    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    for x in range(3):
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(model(torch.ones(4).cuda()).sum()).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

Quiet: a scikit-learn scaler

    import torch
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler()
    scaler.fit([[1.0]])

Quiet: clipped in another branch, without the scaler

    import torch

    model = torch.nn.Linear(4, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    mixed = bool(torch.cuda.device_count())
    for x in range(3):
        loss = model(torch.ones(4).cuda()).sum()
        if mixed:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import code_around, uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

_UNSCALES = re.compile(r"(^|[._])unscale_?(gradients)?$")

rule = Rule("PF113", "scaler-misuse", Severity.ERROR, needs=("GradScaler",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    scalers = calls_to(
        module, "torch.amp.GradScaler", "torch.cuda.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler"
    )
    if not scalers or is_test(module):
        return
    steps = [call for call in calls_named(module, "step") if _is_scaler(module, call)]
    updates = [
        call for call in calls_named(module, "update") if not call.node.args or _is_scaler(module, call)
    ]
    if steps and not updates:
        yield rule.hit(
            steps[0].span,
            f"`{module.text(steps[0].node)}` without {module.text(steps[0].node.func).partition('.')[0]}.update(): the "
            "scale never changes, and the next step is rejected.",
            remedy="Call update() after each step.",
        )
    for clip in calls_to(module, "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_"):
        block = _block(module, clip)
        if uses(module, _UNSCALES, "call", within=code_around(module, clip.node)):
            continue
        scales = [
            call
            for call in calls_named(module, "scale")
            if _block(module, call) == block != 0 and call.node.lineno < clip.node.lineno
        ]
        if scales and any(_block(module, step) == block for step in steps):
            yield rule.hit(
                clip.span,
                f"`{clip.method}` clips gradients that are still scaled: the limit has another meaning at each step.",
                remedy="Call scaler.unscale_(optimizer) before clipping.",
            )


def _is_scaler(module: Module, call: Call) -> bool:
    made = creations(module, call.receiver) if isinstance(call.receiver, ast.Name) else []
    return bool(made) and all(creation.method == "GradScaler" for creation in made)


def _block(module: Module, call: Call) -> int:
    """Identifies the block of statements that contains a call."""
    statement = module.tree.statement(call.node)
    parent = module.parent(statement) if statement is not None else None
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and statement in block:
            return id(block)
    return 0
