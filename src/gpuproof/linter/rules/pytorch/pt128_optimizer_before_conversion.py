"""The optimizer is created before the parameters of the model are replaced: it trains tensors that the model no longer has.

`model.to(device)` keeps the parameters in PyTorch, so the order does not matter there for most optimizers. FullyShardedDataParallel flattens
and replaces them (also on wrapping in place), and on XLA devices moving a model creates new ones. The optimizer then does not change the model, and the loss stays where it is.

Bad:

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    def build(net, device):
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)  # <-
        net = FSDP(net.to(device))
        return net, optimizer

Bad: XLA

    import torch
    import torch_xla.core.xla_model as xm

    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # <-
    model = model.to(xm.xla_device())

Good:

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    def build(net, device):
        net = FSDP(net.to(device))
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        return net, optimizer

Quiet: created again, another model, a GPU

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    def build(net, other, device):
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        net = net.to(device)
        other = FSDP(other)
        return net, other, optimizer
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, all_calls, calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "PT128",
    "optimizer-before-conversion",
    Severity.ERROR,
    needs=("FullyShardedDataParallel", "FSDP", "torch_xla"),
)

_OPTIMIZER = re.compile(r"^torch\.optim\.(\w+\.)?[A-Z]\w+$")
_SHARDED = re.compile(r"(^|\.)(FullyShardedDataParallel|FSDP)$")
_XLA = re.compile(r"xla_device$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("torch") or is_test(module):
        return
    for call in all_calls(module):
        if (
            not call.method[:1].isupper()
            or call.name is None
            or not _OPTIMIZER.match(call.name)
            or "lr_scheduler" in call.name
        ):
            continue
        given = call.expression("params", 0)
        match given:
            case ast.Call(func=ast.Attribute(value=model, attr="parameters")):
                text = module.text(model)
            case _:
                continue
        replaced = _replaced(module, call, text)
        if replaced is None:
            continue
        yield rule.hit(
            call.span,
            f"`{module.excerpt(replaced.node, 50)}` in line {module.unit.file_position(replaced.node.lineno, 1)[1]} replaces the parameters "
            "that this optimizer has.",
            remedy="Create the optimizer after it.",
        )


def _replaced(module: Module, optimizer: Call, model: str) -> Call | None:
    """The later call in the same function that replaces the parameters of a model."""
    function = module.function_of(optimizer.node)
    later = [
        call
        for call in all_calls(module)
        if call.node.lineno > optimizer.node.lineno and module.function_of(call.node) is function
    ]
    if any(
        call.name is not None and _OPTIMIZER.match(call.name) and "lr_scheduler" not in call.name
        for call in later
    ):
        return None
    for call in later:
        if _SHARDED.search(call.name or "") and call.node.args:
            if (
                not call.argument("use_orig_params").is_absent
                and call.argument("use_orig_params").flag is not False
            ):
                continue
            first = call.node.args[0]
            names = [
                module.text(node) for node in ast.walk(first) if isinstance(node, (ast.Name, ast.Attribute))
            ]
            if model in names:
                return call
    for call in calls_named(module, "to"):
        if call in later and call.receiver is not None and module.text(call.receiver) == model:
            target = module.origin(call.expression("device", 0))
            if target is not None and uses(module, _XLA, "call", within=target):
                return call
    return None
