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

Bad: printed, in mixed precision

    import torch

    def train(model, loader, optimizer, scaler):
        for x, y in loader:
            optimizer.zero_grad()
            with torch.autocast("cuda"):
                loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            print(f"loss {loss:.3f}")  # <-

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

Quiet: the condition is in the loop

    import torch

    def train(model, loader):
        for step, x in enumerate(loader):
            loss = model(x.cuda()).sum()
            loss.backward()
            if step % 50 == 0:
                print("loss", loss)
"""

import ast
from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_within
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import LoopNode, callee_name
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF102", "sync-every-step", Severity.NOTE, when="strict", needs=("backward",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch"):
        return
    backward = [call for call in calls_named(module, "backward") if call.receiver is not None]
    for loop in dict.fromkeys(loops[0] for call in backward if (loops := module.loops_around(call.node))):
        losses = {name for call in calls_within(backward, loop) if (name := _loss(call)) is not None}
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
        for call in calls_within(calls_named(module, "print"), loop):
            printed = {name.id for name in _shown(call.node) if not _is_read(module, name)} & losses
            if (
                printed
                and module.loops_around(call.node)[:1] == [loop]
                and not _is_conditional(module, call.node, loop)
            ):
                yield rule.hit(
                    call.span,
                    f"Printing `{min(printed)}` in every step makes the CPU wait until the GPU has finished.",
                    remedy="Print it every 50 steps.",
                )


def _loss(backward: Call) -> str | None:
    """The name of the loss of `loss.backward()` or `scaler.scale(loss).backward()`."""
    match backward.receiver:
        case ast.Name(id=name) | ast.Call(func=ast.Attribute(attr="scale"), args=[ast.Name(id=name)]):
            return name
        case _:
            return None


def _is_read(module: Module, name: ast.Name) -> bool:
    """Whether a name may be a number that was read from the GPU before: `loss = loss.item()`."""
    return any(
        binding.value is None
        or (isinstance(binding.value, ast.Call) and callee_name(binding.value) in ("item", "float", "tolist"))
        for binding in module.reaching(name)
    )


def _shown(call: ast.Call) -> Iterator[ast.Name]:
    """The names whose values a call prints as they are: `print(loss)`, `print(f"loss {loss}")`."""
    for argument in call.args:
        parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
        for part in parts:
            value = part.value if isinstance(part, ast.FormattedValue) else part
            if isinstance(value, ast.Name):
                yield value


def _is_conditional(module: Module, node: ast.AST, loop: LoopNode) -> bool:
    """Whether a condition inside of the loop decides about a node."""
    condition = module.enclosing(node, ast.If, ast.IfExp)
    return condition is not None and module.tree.is_within(condition, loop)
