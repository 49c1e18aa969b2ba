"""A dataset moves its samples to the GPU, and its loader has worker processes: "Cannot re-initialize CUDA in forked subprocess".

Workers are forked from the training process, and CUDA cannot be used after a fork. The first batch fails. Even without workers, moving
sample by sample is slow: return CPU tensors, and move the whole batch in the training loop.

Bad:

    import torch
    from torch.utils.data import DataLoader, Dataset

    class Images(Dataset):
        def __init__(self, files):
            self.files = files

        def __getitem__(self, index):
            return torch.load(self.files[index]).cuda()  # <-

    loader = DataLoader(Images(["a.pt"]), batch_size=32, num_workers=4)

Good:

    import torch
    from torch.utils.data import DataLoader, Dataset

    class Images(Dataset):
        def __init__(self, files):
            self.files = files

        def __getitem__(self, index):
            return torch.load(self.files[index])

    loader = DataLoader(Images(["a.pt"]), batch_size=32, num_workers=4, pin_memory=True)

Quiet: no workers, or started anew

    import torch
    from torch.utils.data import DataLoader, Dataset

    class Images(Dataset):
        def __getitem__(self, index):
            return torch.ones(4).to("cuda")

    first = DataLoader(Images(), batch_size=32)
    second = DataLoader(Images(), batch_size=32, num_workers=4, multiprocessing_context="spawn")
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, calls_within
from gpuproof.linter.analysis.flow.call_targets import Definition, find_definition, find_method
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.frameworks.torch import is_test, moves_to_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT129", "cuda-in-workers", Severity.ERROR, needs=("DataLoader",))

_SPAWNS = re.compile(r"(^|\.)set_start_method$")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    seen = set[ast.AST]()
    for call in calls_to(module, "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"):
        workers = call.argument("num_workers", 5)
        if (
            not (workers.is_sure and workers.number)
            or not call.argument("multiprocessing_context", 11).is_absent
        ):
            continue
        made = creations(module, call.expression("dataset", 0))
        if len(made) != 1 or script_uses(module, _SPAWNS, "call"):
            continue
        owner = find_definition(made[0].module, made[0].node.func)
        move = _move(owner) if owner is not None else None
        if owner is None or move is None or move.node in seen or move.module not in local_modules(module):
            continue
        seen.add(move.node)
        yield rule.hit(
            move.span,
            f"`{move.module.text(move.node)[-40:]}` runs in {workers.number:g} forked workers, where CUDA cannot be used: the first batch fails.",
            remedy="Return the tensor on the CPU, and move the batch in the training loop.",
        )


def _move(owner: Definition) -> Call | None:
    """The call that moves a sample to the GPU, in `__getitem__` of a dataset."""
    item = find_method(owner, "__getitem__")
    if item is None:
        return None
    moves = calls_within(calls_named(item.module, "cuda", "to"), item.node)
    return next((call for call in moves if _is_certain(call)), None)


def _is_certain(call: Call) -> bool:
    if call.method == "cuda":
        return call.receiver is not None and call.name is None
    target = call.argument("device", 0)
    return (
        target.is_known and target.text is not None and target.text.startswith("cuda") and moves_to_gpu(call)
    )
