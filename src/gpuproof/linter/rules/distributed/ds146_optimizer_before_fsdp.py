"""The optimizer is created before the model is sharded: it updates parameters that the sharded model no longer has.

FullyShardedDataParallel and `fully_shard` replace the parameters of a model by their shards. An optimizer with the original ones
steps tensors that no forward pass reads: the loss does not fall, and their memory, the whole model on each GPU, is never freed.
DistributedDataParallel keeps the parameters, and is not reported.
Source: https://docs.pytorch.org/docs/stable/fsdp.html, "optimizer must be initialized after the module has been wrapped".

Bad:

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # <-
    model = FSDP(model)
    model(torch.ones(8).cuda()).sum().backward()
    optimizer.step()

Bad: FSDP2

    import torch
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # <-
    fully_shard(model)
    model(torch.ones(8).cuda()).sum().backward()
    optimizer.step()

Good:

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    model = FSDP(torch.nn.Linear(8, 1).cuda())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer.zero_grad()
    model(torch.ones(8).cuda()).sum().backward()
    optimizer.step()

Quiet: created again

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model = FSDP(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

Quiet: one or the other

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    def build(sharded):
        model = torch.nn.Linear(8, 1).cuda()
        if not sharded:
            return model, torch.optim.AdamW(model.parameters(), lr=1e-3)
        model = FSDP(model)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-3)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.branches import are_exclusive
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "DS146",
    "optimizer-before-fsdp",
    Severity.ERROR,
    needs=("FullyShardedDataParallel", "FSDP", "fully_shard"),
)

_OPTIMIZER = re.compile(r"^torch\.optim\.(\w+\.)*[A-Z]\w+$")
_WRAP = re.compile(r"^torch\.distributed\.(\w+\.)*(FullyShardedDataParallel|fully_shard)$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    wraps = [
        call
        for call in (*calls_named(module, "FullyShardedDataParallel", "FSDP", "fully_shard"),)
        if _WRAP.match(call.name or "")
    ]
    optimizers = [call for call in all_calls(module) if _OPTIMIZER.match(call.name or "")] if wraps else []
    for optimizer in optimizers:
        model = _model_of(optimizer)
        for wrap in wraps:
            wrapped = wrap.expression("module", 0)
            if model is None or wrapped is None or module.text(model) != module.text(wrapped):
                continue
            if not _precedes(module, optimizer, wrap) or _is_replaced(module, optimizer, wrap, optimizers):
                continue
            line = module.unit.file_position(wrap.node.lineno, 1)[1]
            yield rule.hit(
                optimizer.span,
                f"The optimizer gets the parameters of `{module.text(model)}` before line {line} shards it: it updates tensors that "
                "the model no longer has.",
                remedy="Create the optimizer after the model is wrapped.",
            )
            break


def _model_of(optimizer: Call) -> ast.expr | None:
    match optimizer.expression("params", 0):
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as model, attr="parameters")):
            return model
        case _:
            return None


def _precedes(module: Module, first: Call, last: Call) -> bool:
    return (
        module.function_of(first.node) is module.function_of(last.node)
        and first.node.lineno < last.node.lineno
        and not module.loops_around(first.node)
        and not are_exclusive(module, first.node, last.node)
    )


def _is_replaced(module: Module, optimizer: Call, wrap: Call, others: list[Call]) -> bool:
    """Whether another optimizer takes the place of this one after the model is wrapped."""
    return any(
        other.node.lineno > wrap.node.lineno
        and module.function_of(other.node) is module.function_of(optimizer.node)
        for other in others
    )
