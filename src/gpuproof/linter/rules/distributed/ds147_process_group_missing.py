"""DistributedDataParallel, or a DistributedSampler without ranks, is used in a script that never joins a process group.

Both ask the default process group for the rank and the number of processes: "Default process group has not been initialized, please
make sure to call init_process_group", whatever launcher starts the script. A launcher only sets variables. Horovod has no process
group of PyTorch: its sampler needs `num_replicas=hvd.size(), rank=hvd.rank()`.

Bad:

    import os
    import torch
    from torch.nn.parallel import DistributedDataParallel

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])  # <-
    model(torch.ones(8).cuda()).sum().backward()

Bad: a sampler under Horovod

    import horovod.torch as hvd
    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    data = torch.rand(64, 8)
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data))  # <-

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda(), device_ids=[local_rank])
    model(torch.ones(8).cuda()).sum().backward()

Good: with Horovod's ranks

    import horovod.torch as hvd
    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    hvd.init()
    torch.cuda.set_device(hvd.local_rank())
    data = torch.rand(64, 8)
    sampler = DistributedSampler(data, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=4)

Quiet: another file of the project joins it

    # file: setup.py
    import torch.distributed as dist

    def join():
        dist.init_process_group("nccl")
    # file: train.py
    import torch
    from setup import join
    from torch.nn.parallel import DistributedDataParallel

    join()
    model = DistributedDataParallel(torch.nn.Linear(8, 1))

Quiet: only with several processes

    import torch
    from torch.nn.parallel import DistributedDataParallel

    def wrap(model, distributed):
        if distributed:
            model = DistributedDataParallel(model)
        return model

    wrap(torch.nn.Linear(8, 1), False)
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_to
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.entries import is_program, scripts_with
from gpuproof.linter.knowledge.distribution.horovod import library_inits
from gpuproof.linter.knowledge.frameworks.torch import is_test
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "DS147",
    "process-group-missing",
    Severity.ERROR,
    needs=("DistributedDataParallel", "DistributedSampler"),
)

_WRAPS = (
    "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.parallel.distributed.DistributedDataParallel",
)
_SAMPLERS = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")
_JOINS = re.compile(
    r"init_process_group|init_distributed|init_device_mesh|init_dist|PartialState|(^|\.)initialize$|setup_dist"
)
_JOIN_NOTHING = frozenset({"horovod", "transformers", "datasets", "evaluate", "peft", "tokenizers"})


@rule.module
def check(module: Module, _: Project) -> Hits:
    if is_test(module):
        return
    calls = [*calls_to(module, *_WRAPS)]
    calls += [
        call
        for call in calls_to(module, *_SAMPLERS)
        if call.argument("num_replicas", 1).is_absent or call.argument("rank", 2).is_absent
    ]
    calls = [call for call in calls if not _is_conditional(module, call)]
    if not calls:
        return
    scripts = scripts_with(module)
    # A library's module is run by scripts that are not here.
    if not any(map(is_program, scripts)) and all(module.function_of(call.node) for call in calls):
        return
    if any(
        script_uses(script, _JOINS, "call", "name", "string") or set(unseen_imports(script)) - _JOIN_NOTHING
        for script in scripts
    ):
        return
    horovod = any(library_inits(home) for script in scripts for home in local_modules(script))
    call = calls[0]
    yield rule.hit(
        call.span,
        f"{call.method}() asks for the process group, which nothing in the script creates: it fails with "
        '"Default process group has not been initialized".',
        remedy="Pass num_replicas=hvd.size(), rank=hvd.rank()."
        if horovod
        else 'Call torch.distributed.init_process_group("nccl") first.',
    )


def _is_conditional(module: Module, call: Call) -> bool:
    return any(
        isinstance(ancestor, (ast.If, ast.IfExp, ast.Try)) and "__main__" not in module.text(ancestor)[:40]
        for ancestor in module.tree.ancestors(call.node)
    )
