"""Batches from pinned memory are copied with `x.to(device)`, which waits for the copy; `non_blocking=True` does not.

`pin_memory=True` pays off only with `non_blocking=True`: the copy then overlaps with the work that the GPU still has.
Source: PyTorch's performance tuning guide.

Bad:

    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x = x.to(device)  # <-
        y = y.cuda()  # <-

Fixed:

    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        y = y.cuda(non_blocking=True)

Good:

    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True)
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        y = y.cuda(non_blocking=True)

Quiet: memory that is not pinned

    from torch.utils.data import DataLoader

    loader = DataLoader(dataset, batch_size=64, num_workers=4)
    for x, y in loader:
        x = x.to(device)
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named, calls_to, calls_within, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("IO107", "blocking-copy", Severity.NOTE, when="strict", needs=("pin_memory",))


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not calls_to(module, "torch.utils.data.DataLoader"):
        return
    for loop in module.nodes(ast.For):
        loader = origin_call(module, loop.iter)
        if loader is None or loader.name != "torch.utils.data.DataLoader":
            continue
        if loader.argument("pin_memory", 7).flag is not True:
            continue
        batch = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        for call in calls_within(calls_named(module, "to", "cuda"), loop):
            is_batch = isinstance(call.receiver, ast.Name) and call.receiver.id in batch
            if is_batch and call.argument("non_blocking").is_absent:
                yield rule.hit(
                    call.span,
                    f"`{module.text(call.node)}` waits for the copy although the batch is in pinned memory.",
                    remedy="Pass non_blocking=True.",
                    fix=Fix("Pass non_blocking=True", (add_keyword(call, "non_blocking=True"),), safe=True),
                )
