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
    import torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler

    dist.init_process_group("gloo")
    data = list(range(9))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
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

Bad: in a class, if there are several processes

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler

    class Trainer:
        def __init__(self, model, data, epochs):
            self.model, self.epochs = model, epochs
            self.sampler = DistributedSampler(data) if dist.is_initialized() else None  # <-
            self.loader = DataLoader(data, batch_size=8, sampler=self.sampler, shuffle=self.sampler is None)

        def run_epoch(self):
            for x in self.loader:
                self.model(x).sum().backward()

        def fit(self):
            for _ in range(self.epochs):
                self.run_epoch()

    Trainer(torch.nn.Linear(8, 1), list(range(9)), 10).fit()

Bad: under Horovod

    import horovod.torch as hvd
    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    hvd.init()
    data = list(range(9))
    model = torch.nn.Linear(8, 1)
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())  # <-
    loader = DataLoader(data, sampler=sampler)
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
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.flow.creations import creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.fixing.edits import insert_line
from gpuproof.linter.knowledge.distribution.entries import computes_gradients, epoch_loops, scripts_with
from gpuproof.linter.knowledge.distribution.ranks import uses_distribution_library
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hit, Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("DS108", "set-epoch-missing", Severity.WARNING, needs=("DistributedSampler",))

_LEAVE_IT = "horovod smdistributed deepspeed"
"""Libraries that leave the epoch of a sampler to the script."""
_NOT_TRAINING = re.compile(r"val|test|eval|dev(?!ice)|infer|pred", re.IGNORECASE)
_SAMPLERS = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")


@rule.module
def check(module: Module, _: Project) -> Hits:
    samplers = [call for call in calls_to(module, *_SAMPLERS) if _shuffles(call)]
    if not samplers:
        return
    for script in scripts_with(module):
        if not computes_gradients(script):
            continue
        loops = [(home, loop) for home in local_modules(script) for loop in epoch_loops(home)]
        # What a script uses, and whatever it imports, takes the longest to find out.
        if not loops or uses_distribution_library(script, _LEAVE_IT):
            continue
        for call in samplers:
            sampler, loader = _assigned_to(module, call)
            data = call.expression("dataset", 0)
            names = (sampler, loader, module.text(data) if data is not None else "")
            if _is_set(script, call) or any(map(_NOT_TRAINING.search, names)) or not _feeds_training(call):
                continue
            yield _hit(module, call, sampler, loader, loops)
            return


def _hit(module: Module, call: Call, sampler: str, loader: str, loops: list[tuple[Module, ast.For]]) -> Hit:
    home, loop = loops[0]
    epoch = loop.target.id if isinstance(loop.target, ast.Name) and loop.target.id != "_" else "epoch"
    same = (
        home is module
        and module.function_of(call.node) is module.function_of(loop)
        and call.node.lineno < loop.lineno
    )
    plain = sampler.isidentifier() and isinstance(loop.target, ast.Name) and loop.target.id != "_"
    edit = (
        insert_line(module, loop.body[0], f"{sampler}.set_epoch({epoch})")
        if same and plain and _is_always(module, call)
        else None
    )
    name = sampler or (f"{loader}.sampler" if loader else "loader.sampler")
    return rule.hit(
        call.span,
        "set_epoch() is never called: every epoch reads the data in the same order.",
        remedy=f"Start each epoch with {name}.set_epoch({epoch}).",
        fix=Fix(f"Call {sampler}.set_epoch({epoch})", (edit,)) if edit is not None else None,
    )


def _shuffles(call: Call) -> bool:
    shuffle = call.argument("shuffle", 3)
    return shuffle.is_absent or (shuffle.is_known and shuffle.flag is True)


def _is_always(module: Module, call: Call) -> bool:
    return module.enclosing(call.node, ast.If, ast.IfExp) is None


def _feeds_training(sampler: Call) -> bool:
    """Whether a sampler may be for training data: the flag that chooses it is not that of an evaluation."""
    module = sampler.module
    inside: ast.AST = sampler.node
    for ancestor in module.tree.ancestors(sampler.node):
        if isinstance(ancestor, (ast.If, ast.IfExp)) and inside is not ancestor.test:
            body = ancestor.body if isinstance(ancestor.body, list) else [ancestor.body]
            text = module.text(ancestor.test).lower()
            trains = "train" in text and "not " not in text
            if trains and inside not in body:
                return False
            if _NOT_TRAINING.search(text) and not trains and inside in body:
                return False
        inside = ancestor
    return True


def _is_set(script: Module, sampler: Call) -> bool:
    """Whether a call of `set_epoch` may be on a sampler, and is not certainly on others only."""
    for module in local_modules(script):
        for call in calls_named(module, "set_epoch"):
            made = creations(module, call.receiver)
            if not made or any(each.node is sampler.node for each in made):
                return True
    return False


def _assigned_to(module: Module, call: Call) -> tuple[str, str]:
    """The variable that holds a sampler, and the one that holds its loader, as far as they are written in one statement."""
    parent, direct = module.parent(call.node), True
    while isinstance(parent, (ast.IfExp, ast.keyword, ast.Call)):
        direct = direct and not isinstance(parent, (ast.keyword, ast.Call))
        parent = module.parent(parent)
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1:
        name = module.text(parent.targets[0])
        return (name, "") if direct else ("", name)
    return "", ""
