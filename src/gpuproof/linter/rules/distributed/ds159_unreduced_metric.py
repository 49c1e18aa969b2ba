"""The validation data is split between the ranks, and the results are never combined: rank 0 reports its own share.

With a DistributedSampler for the validation data, each process counts the correct answers of an N-th of it. Without `all_reduce`
of the counts, the accuracy that is printed, and that chooses the best checkpoint, is the one of rank 0's share. It is a note, because
for large data the difference is small.

Bad:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler

    def evaluate(model, loader):
        correct = 0
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()  # <-
        return correct

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(torch.nn.Linear(8, 2).cuda())
    data = torch.load("val.pt", weights_only=True)
    val_loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False))
    accuracy = evaluate(model, val_loader)
    if dist.get_rank() == 0:
        print(accuracy)

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler

    def evaluate(model, loader):
        correct = torch.zeros(1).cuda()
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x.cuda()).argmax(1) == y.cuda()).sum()
        dist.all_reduce(correct)
        return correct.item()

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(torch.nn.Linear(8, 2).cuda())
    data = torch.load("val.pt", weights_only=True)
    sampler = DistributedSampler(data, shuffle=False)
    val_loader = DataLoader(data, batch_size=8, num_workers=4, sampler=sampler)
    accuracy = evaluate(model, val_loader)
    if dist.get_rank() == 0:
        print(accuracy)

Quiet: each rank evaluates everything

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader

    def evaluate(model, loader):
        correct = 0
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(1) == y).sum().item()
        return correct

    dist.init_process_group("nccl")
    print(evaluate(torch.nn.Linear(8, 2), DataLoader(torch.load("val.pt", weights_only=True), batch_size=8)))
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.entries import iterated, joins_group, scripts_with
from gpuproof.linter.knowledge.distribution.ranks import uses_distribution_library
from gpuproof.linter.knowledge.frameworks.torch import is_inside_with
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS159", "unreduced-metric", Severity.NOTE, needs=("correct", "acc", "hits", "right"))

_COUNTED = re.compile(r"(^|_|\.)(n_?)?(correct|hits|num_right|right|acc|accuracy)(_|$)", re.IGNORECASE)
_REDUCES = re.compile(
    r"(^|\.)((all_)?reduce\w*|allreduce\w*|(all_)?gather\w*|synchronize_between_processes|sync\w*|broadcast\w*)$|^torchmetrics\."
)


@rule.module
def check(module: Module, _: Project) -> Hits:
    for node in module.nodes(ast.AugAssign):
        if not isinstance(node.op, ast.Add) or not _COUNTED.search(module.text(node.target)):
            continue
        loop = next((loop for loop in module.loops_around(node) if isinstance(loop, ast.For)), None)
        if loop is None or not _is_evaluated(module, loop) or not _is_shared(module, loop):
            continue
        scripts = [script for script in scripts_with(module) if joins_group(script)]
        if not scripts or any(
            script_uses(script, _REDUCES, "call", "name") or uses_distribution_library(script)
            for script in scripts
        ):
            return
        yield rule.hit(
            module.span(node),
            f"`{module.text(node.target)}` counts the share of one rank, and nothing adds up those of the others.",
            remedy="Count in a tensor, and call dist.all_reduce() on it before it is reported.",
        )
        return


def _is_evaluated(module: Module, loop: ast.For) -> bool:
    words = ("no_grad", "inference_mode")
    trains = any(module.tree.is_within(call.node, loop) for call in calls_named(module, "backward"))
    inner = [node for node in ast.walk(loop) if isinstance(node, ast.With)]
    return not trains and (
        is_inside_with(module, loop, words)
        or any(
            word in module.text(item.context_expr)
            for block in inner
            for item in block.items
            for word in words
        )
    )


def _is_shared(module: Module, loop: ast.For) -> bool:
    """Whether the loader of a loop certainly has a sampler that gives each rank its share."""
    made = creations(module, iterated(module, loop.iter))
    if not made or not all(call.method == "DataLoader" for call in made):
        return False
    for call in made:
        samplers = creations(call.module, call.expression("sampler", 3))
        if not samplers or not all(sampler.method == "DistributedSampler" for sampler in samplers):
            return False
    return True
