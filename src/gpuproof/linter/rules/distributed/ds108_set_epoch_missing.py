"""A DistributedSampler shuffles by seed and epoch; without `set_epoch` every epoch has the same order.

Without `set_epoch(epoch)` the sampler stays at epoch 0, so every epoch reads the data in the same order, and each
rank always sees the same share.
Source: https://docs.pytorch.org/docs/stable/data.html, `DistributedSampler`.

Bad:

    import torch
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    data = list(range(9))
    model = torch.nn.Linear(8, 1)
    sampler = DistributedSampler(data)  # <-
    loader = DataLoader(data, sampler=sampler)
    for epoch in range(10):
        for x in loader:
            model(x).sum().backward()

Fixed:

    import torch
    from torch.utils.data import DataLoader
    from torch.utils.data.distributed import DistributedSampler

    data = list(range(9))
    model = torch.nn.Linear(8, 1)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        for x in loader:
            model(x).sum().backward()

Good:

    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    data = list(range(9))
    model = torch.nn.Linear(8, 1)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, sampler=sampler)
    for epoch in range(10):
        loader.sampler.set_epoch(epoch)
        for x in loader:
            model(x).sum().backward()

Bad: another file makes the loader

    # file: data.py
    from torch.utils.data import DataLoader, DistributedSampler

    def build_loader(data):
        sampler = DistributedSampler(data)  # <-
        return DataLoader(data, sampler=sampler), sampler
    # file: train.py
    import torch
    from data import build_loader

    model = torch.nn.Linear(8, 1)
    loader, sampler = build_loader([])
    for epoch in range(10):
        for x in loader:
            model(x).sum().backward()

Quiet: this sampler does not shuffle

    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    data = list(range(9))
    model = torch.nn.Linear(8, 1)
    sampler = DistributedSampler(data, shuffle=False)
    for epoch in range(10):
        for x in DataLoader(data, sampler=sampler):
            model(x).sum().backward()

Quiet: a single epoch

    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    data = list(range(9))
    model = torch.nn.Linear(8, 1)
    for x in DataLoader(data, sampler=DistributedSampler(data)):
        model(x).sum().backward()

Quiet: for validation

    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    data = list(range(9))
    model = torch.nn.Linear(8, 1)
    val_sampler = DistributedSampler(data)
    for epoch in range(10):
        for x in data:
            model(x).sum().backward()
        for x in DataLoader(data, sampler=val_sampler):
            print(model(x))
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, origin_call
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import insert_line
from gpuproof.linter.knowledge.distribution.ranks import uses_distribution_library
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("DS108", "set-epoch-missing", Severity.WARNING, needs=("backward",))

_NOT_TRAINING = re.compile(r"val|test|eval|dev|infer|pred", re.IGNORECASE)
_SAMPLERS = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not calls_named(module, "backward"):
        return
    loop = next((node for node in module.nodes(ast.For) if _is_epochs(module, node)), None)
    if loop is None:
        return
    samplers = [call for local in local_modules(module) for call in calls_to(local, *_SAMPLERS)]
    # What a script uses, and whatever it imports, takes the longest to find out.
    if not samplers or uses_distribution_library(module):
        return
    for call in samplers:
        if _is_set(module, call):
            continue
        shuffle = call.argument("shuffle", 3)
        shuffles = shuffle.is_absent or (shuffle.is_known and shuffle.flag is True)
        name = _assigned_to(call.module, call)
        if (
            not shuffles
            or _NOT_TRAINING.search(name)
            or (not name and call.module.function_of(call.node) is None)
        ):
            continue
        epoch = loop.target.id if isinstance(loop.target, ast.Name) else "epoch"
        same = (
            call.module is module
            and module.function_of(call.node) is module.function_of(loop)
            and call.node.lineno < loop.lineno
        )
        plain = name.isidentifier() and isinstance(loop.target, ast.Name)
        edit = insert_line(module, loop.body[0], f"{name}.set_epoch({epoch})") if same and plain else None
        yield rule.hit(
            call.span,
            "set_epoch() is never called: every epoch reads the data in the same order.",
            remedy=f"Start each epoch with {name if name else 'loader.sampler'}.set_epoch({epoch}).",
            fix=Fix(f"Call {name}.set_epoch({epoch})", (edit,)) if edit is not None else None,
        )
        return


def _is_set(script: Module, sampler: Call) -> bool:
    """Whether a call of `set_epoch` may be on a sampler, and is not certainly on others only."""
    for module in local_modules(script):
        for call in calls_named(module, "set_epoch"):
            made = creations(module, call.receiver)
            if not made or any(each.node is sampler.node for each in made):
                return True
    return False


def _is_epochs(module: Module, loop: ast.For) -> bool:
    """Whether a loop iterates over epochs, and not certainly over a single one."""
    target = module.text(loop.target).lower()
    call = origin_call(module, loop.iter)
    if "epoch" not in target or call is None or call.method not in ("range", "trange"):
        return False
    last = call.argument(None, 1 if len(call.node.args) > 1 else 0)
    return last.number is None or last.number > 1


def _assigned_to(module: Module, call: Call) -> str:
    parent = module.parent(call.node)
    while isinstance(parent, (ast.IfExp, ast.keyword, ast.Call)):
        parent = module.parent(parent)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        return module.text(parent.targets[0])
    return ""
