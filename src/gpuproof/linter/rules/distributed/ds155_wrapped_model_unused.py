"""The model is wrapped in DistributedDataParallel, and the loop calls the model inside: its gradients are never reduced.

DDP prepares the reduction of gradients in its own `forward`. A loop that calls the original model, or `ddp.module`, bypasses it: each
process trains its own copy, nothing fails, and the saved model has learned from the data of one process. Calling `ddp.module` for
validation is right, and not reported.
Source: https://docs.pytorch.org/docs/stable/notes/ddp.html, "Forward Pass".

Bad:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(8, 1).cuda()
    ddp_model = DistributedDataParallel(model, device_ids=[local_rank])  # <-
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1)
    for x in torch.rand(64, 8):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()

Bad: the result is dropped

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def main():
        dist.init_process_group("nccl")
        model = torch.nn.Linear(8, 1).cuda()
        DistributedDataParallel(model)  # <-
        for x in torch.rand(64, 8):
            model(x.cuda()).sum().backward()

    main()

Bad: the module inside

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    for x in torch.rand(64, 8):
        model.module(x.cuda()).sum().backward()  # <-

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = torch.nn.Linear(8, 1).cuda()
    ddp_model = DistributedDataParallel(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(ddp_model.parameters(), lr=0.1)
    for x in torch.rand(64, 8):
        optimizer.zero_grad()
        ddp_model(x.cuda()).sum().backward()
        optimizer.step()

Quiet: passed on

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    def train(network):
        for x in torch.rand(64, 8):
            network(x.cuda()).sum().backward()

    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 1).cuda()
    ddp_model = DistributedDataParallel(model)
    train(ddp_model)
    with torch.no_grad():
        ddp_model.module(torch.ones(8).cuda())
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.distribution.entries import training_loops
from gpuproof.linter.knowledge.frameworks.torch import is_inside_with, is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule

rule = Rule("DS155", "wrapped-model-unused", Severity.ERROR, needs=("DistributedDataParallel",))

_READS = frozenset(
    {
        "parameters",
        "named_parameters",
        "module",
        "state_dict",
        "load_state_dict",
        "train",
        "eval",
        "cuda",
        "to",
        "zero_grad",
        "buffers",
    }
)
"""Members of the wrapper that run no forward pass."""


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    wraps = calls_to(
        module,
        "torch.nn.parallel.DistributedDataParallel",
        "torch.nn.parallel.distributed.DistributedDataParallel",
    )
    for wrap in wraps:
        model = wrap.expression("module", 0)
        parent = module.parent(wrap.node)
        if isinstance(parent, ast.Expr) and isinstance(model, ast.Name):
            if _is_trained(module, wrap, model.id):
                yield _hit(wrap, model.id)
        elif isinstance(parent, ast.Assign) and len(parent.targets) == 1:
            target = parent.targets[0]
            if not isinstance(target, ast.Name):
                continue
            inner = _inner_calls(module, target)
            if inner is not None:
                yield rule.hit(
                    module.span(inner),
                    f"`{module.text(inner.func)}(...)` bypasses DistributedDataParallel: the gradients of this step are not reduced.",
                    remedy=f"Call {target.id}(...).",
                )
            if not isinstance(model, ast.Name) or model.id == target.id:
                continue
            if _is_only_read(module, target) and _is_trained(module, wrap, model.id):
                yield _hit(wrap, model.id, target.id)


def _hit(wrap: Call, model: str, name: str | None = None) -> Hit:
    return rule.hit(
        wrap.span,
        f"The loop calls `{model}` and never the wrapped model: the gradients are not reduced, and each process trains its own copy.",
        remedy=f"Call {name}(...) in the loop."
        if name
        else f"Use what it returns: {model} = DistributedDataParallel({model}).",
    )


def _uses(module: Module, target: ast.Name) -> list[ast.Name]:
    return [
        use
        for use in module.tree.uses_of(target.id)
        if any(binding.node is target for binding in module.reaching(use))
    ]


def _is_only_read(module: Module, target: ast.Name) -> bool:
    """Whether a wrapped model is never called or passed on."""
    for use in _uses(module, target):
        parent = module.parent(use)
        if not isinstance(parent, ast.Attribute) or parent.attr not in _READS:
            return False
        # `net = ddp.module`, and everything else that keeps a part of it.
        if parent.attr == "module" and not isinstance(module.parent(parent), ast.Attribute):
            return False
    return module.function_of(target) is not None or not _is_imported(module)


def _is_imported(module: Module) -> bool:
    return bool(module.loader.importers(module.unit))


def _is_trained(module: Module, wrap: Call, name: str) -> bool:
    """Whether a training loop after the wrapping, in the same function, calls a model by its name."""
    function = module.function_of(wrap.node)
    return any(
        call.node.lineno > wrap.node.lineno
        and isinstance(call.node.func, ast.Name)
        and module.function_of(call.node) is function
        and any(module.tree.is_within(call.node, loop) for loop in training_loops(module))
        and not is_inside_with(module, call.node, ("no_grad", "inference_mode"))
        for call in calls_named(module, name)
    )


def _inner_calls(module: Module, target: ast.Name) -> ast.Call | None:
    """A call of `wrapped.module(...)` in a training loop."""
    for use in _uses(module, target):
        attribute = module.parent(use)
        call = module.parent(attribute) if isinstance(attribute, ast.Attribute) else None
        if not isinstance(attribute, ast.Attribute) or attribute.attr != "module":
            continue
        if not isinstance(call, ast.Call) or call.func is not attribute:
            continue
        in_loop = any(module.tree.is_within(call, loop) for loop in training_loops(module))
        if in_loop and not is_inside_with(module, call, ("no_grad", "inference_mode", "no_sync")):
            return call
    return None
