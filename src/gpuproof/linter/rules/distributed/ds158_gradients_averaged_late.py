"""Gradients are averaged between the processes after the optimizer has used them: each process steps with its own.

Without DistributedDataParallel, `all_reduce` of the gradients belongs between `backward()` and `step()`. After the step it changes
gradients that the next `zero_grad()` deletes: the copies of the model drift apart, and nothing fails.

Bad:

    import torch
    import torch.distributed as dist

    def average(model):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.rand(64, 8):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()
        average(model)  # <-

Good:

    import os
    import torch
    import torch.distributed as dist

    def average(model):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= dist.get_world_size()

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.rand(64, 8):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        average(model)
        optimizer.step()

Quiet: the parameters are averaged, which is another algorithm

    import torch
    import torch.distributed as dist

    def average(model):
        for parameter in model.parameters():
            dist.all_reduce(parameter.data)

    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.rand(64, 8):
        model(x.cuda()).sum().backward()
        optimizer.step()
        average(model)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named, calls_within
from gpuproof.linter.analysis.flow.call_targets import find_definition
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.collectives import collective_calls
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS158", "gradients-averaged-late", Severity.ERROR, needs=("backward",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not any(calls_named(home, "all_reduce", "allreduce", "allreduce_") for home in local_modules(module)):
        return
    for loop in module.nodes(ast.For):
        steps = [call for call in calls_within(calls_named(module, "step"), loop) if _is_in(loop, call)]
        backwards = [
            call for call in calls_within(calls_named(module, "backward"), loop) if _is_in(loop, call)
        ]
        if len(steps) != 1 or len(backwards) != 1:
            continue
        reduces = [call for call in calls_within(all_calls(module), loop) if _reduces_gradients(call)]
        step = steps[0].node.lineno
        if not reduces or any(call.node.lineno <= step for call in reduces):
            continue
        if backwards[0].node.lineno > step:
            continue
        yield rule.hit(
            reduces[0].span,
            f"The gradients are averaged after {module.text(steps[0].node)}, which has used each process's own: the models drift apart.",
            remedy="Average them between backward() and step().",
        )


def _is_in(loop: ast.For, call: Call) -> bool:
    """Whether a call is a statement of the loop itself, and not of a branch or an inner loop."""
    return any(isinstance(node, ast.Expr) and node.value is call.node for node in loop.body)


def _reduces_gradients(call: Call) -> bool:
    """Whether a call reduces gradients: `all_reduce(parameter.grad)`, or a function of the project that does."""
    direct = {other.node for other in collective_calls(call.module)}
    if call.node in direct:
        return _names_gradient(call)
    found = find_definition(call.module, call.node.func)
    if found is None or isinstance(found.node, ast.ClassDef):
        return False
    inner = [
        other
        for other in collective_calls(found.module)
        if found.module.function_of(other.node) is found.node
    ]
    return bool(inner) and all(map(_names_gradient, inner))


def _names_gradient(call: Call) -> bool:
    return call.method in ("all_reduce", "allreduce", "allreduce_", "reduce") and any(
        isinstance(node, ast.Attribute) and node.attr == "grad"
        for argument in call.node.args[:1]
        for node in ast.walk(argument)
    )
