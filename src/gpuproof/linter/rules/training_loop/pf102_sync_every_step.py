"""`.item()`, `.cpu()` or `print` of a GPU tensor in every step makes the CPU wait for the GPU, which then has no work.

Kernels are launched ahead of the GPU; reading a value ends this lead. Once every 50 steps is enough for a log. It is often
harmless where a step takes long, so the rule is strict. Source: PyTorch's performance tuning guide.

Bad:

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    for x, y in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
        running += loss.item()  # <-

Good:

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    for step, (x, y) in enumerate(loader):
        loss = model(x.cuda()).sum()
        loss.backward()
        running += loss.detach()
        if step % 50 == 0:
            print(running.item())

Quiet: once an epoch

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    for epoch in range(3):
        for x, y in loader:
            loss = model(x.cuda()).sum()
            loss.backward()
        print(loss.item())
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import LoopNode
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF102", "sync-every-step", Severity.NOTE, when="strict", needs=("backward",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch"):
        return
    backward = [call for call in calls_named(module, "backward") if call.receiver is not None]
    for loop in dict.fromkeys(loops[0] for call in backward if (loops := module.loops_around(call.node))):
        losses = {
            call.receiver.id for call in calls_within(backward, loop) if isinstance(call.receiver, ast.Name)
        }
        for call in calls_within(calls_named(module, "item", "cpu", "tolist"), loop):
            is_loss = isinstance(call.receiver, ast.Name) and call.receiver.id in losses
            if (
                is_loss
                and module.loops_around(call.node)[:1] == [loop]
                and not _is_conditional(module, call.node, loop)
            ):
                yield rule.hit(
                    call.span,
                    f"`{module.text(call.node)}` in every step makes the CPU wait until the GPU has finished.",
                    remedy="Add up loss.detach(), and read the value every 50 steps.",
                )


def _is_conditional(module: Module, node: ast.AST, loop: LoopNode) -> bool:
    """Whether a condition inside of the loop decides about a node."""
    condition = module.enclosing(node, ast.If, ast.IfExp)
    return condition is not None and module.tree.is_within(condition, loop)
