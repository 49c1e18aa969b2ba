"""The processes form a group but never exchange gradients: each trains its own model.

`init_process_group` only enables communication. Unless the model is wrapped in DistributedDataParallel or FSDP, or
the script reduces gradients by hand, the copies diverge, and the saved model has only learned from the data of one
process. `DataParallel` does not help: it works within one process.

Bad:

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader

    dist.init_process_group("nccl")  # <-
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader([]):
        model(x.cuda()).sum().backward()
        optimizer.step()

Bad: the ranks only exchange the loss that they print

    import torch
    import torch.distributed as dist

    def average(value):
        dist.all_reduce(value)
        return value / dist.get_world_size()

    dist.init_process_group("nccl")  # <-
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in range(10):
        optimizer.zero_grad()
        loss = model(torch.ones(8).cuda()).sum()
        loss.backward()
        optimizer.step()
        print(average(loss.detach()))

Bad: joined in one file, trained in a class of another

    # file: train.py
    import os
    import torch
    import torch.distributed as dist
    from trainer import Trainer

    def setup():
        dist.init_process_group("nccl")  # <-
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

    setup()
    Trainer(torch.nn.Linear(8, 1).cuda()).fit(torch.utils.data.DataLoader([]))
    # file: trainer.py
    import torch

    class Trainer:
        def __init__(self, model):
            self.model = model
            self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(self, x):
            self.optimizer.zero_grad()
            self.model(x.cuda()).sum().backward()
            self.optimizer.step()

        def fit(self, loader):
            for x in loader:
                self.step(x)

Quiet: they average the gradients themselves

    import torch
    import torch.distributed as dist

    def average(tensors):
        for tensor in tensors:
            dist.all_reduce(tensor)

    dist.init_process_group("nccl")
    model = torch.nn.Linear(8, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in range(10):
        optimizer.zero_grad()
        model(torch.ones(8).cuda()).sum().backward()
        average([parameter.grad for parameter in model.parameters()])
        optimizer.step()

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader([]):
        optimizer.zero_grad()
        model(x.cuda()).sum().backward()
        optimizer.step()

Quiet: gradients are averaged by hand

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader

    dist.init_process_group("gloo")
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader([]):
        model(x).sum().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()

Quiet: nothing is trained here

    import torch
    import torch.distributed as dist

    dist.init_process_group("nccl")
    print(torch.nn.Linear(8, 1)(torch.ones(8)))
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named, passed_arguments
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.syntax_index import callee_name
from gpuproof.linter.analysis.usage import find_uses
from gpuproof.linter.knowledge.distribution.entries import group_scripts, training_loops
from gpuproof.linter.knowledge.distribution.ranks import process_group_inits, uses_distribution_library
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS119", "process-group-without-ddp", Severity.ERROR, needs=("init_process_group",))

_SHARES = re.compile(
    r"(^|\.)(DistributedDataParallel\w*|FullyShardedDataParallel|DDP|FSDP|fully_shard|replicate|all_reduce\w*|allreduce\w*|reduce|reduce_scatter\w*|all_gather\w*"
    r"|broadcast\w*|ZeroRedundancyOptimizer|average_\w+|parallelize\w*|DTensor|DeviceMesh|init_device_mesh|Pipe\w*|LocalSGD\w*"
    r"|Distributed\w*Optimizer|register_(?!forward|state|load|module|buffer)\w*hook)$"
    r"|^torch\.distributed\.(rpc|pipelining|send|recv|isend|irecv|gather|scatter|all_to_all|tensor)\b"
)
"""Functions and classes through which ranks exchange gradients or weights."""
_PARALLEL = frozenset({"tp_plan", "tp_size", "device_mesh", "distributed_config"})
_CONNECT_NOTHING = frozenset({"transformers", "datasets", "evaluate", "peft", "tokenizers"})
"""Libraries whose models train in a loop of the script's own, as any other."""
_COLLECTIVES = ("all_reduce", "reduce", "all_gather", "gather")
_OF_MODEL = re.compile(
    r"grad|param|weight|state|model|net\b|module|flat|bucket|buffer|\.data\b", re.IGNORECASE
)
_METRIC = re.compile(r"loss|acc|correct|count|total|metric|num_|seen|score|elapsed|time", re.IGNORECASE)


@rule.module
def check(module: Module, _: Project) -> Hits:
    starts = process_group_inits(module)
    if not starts:
        return
    for script in group_scripts(module):
        if not any(calls_named(home, "step") and training_loops(home) for home in local_modules(script)):
            continue
        if (
            _shares_gradients(script)
            or any(
                "process_group" in call.keywords and not call.argument("process_group").is_unset
                for local in local_modules(script)
                for call in all_calls(local)
            )
            or any(map(_may_be_parallel, local_modules(script)))
            or uses_distribution_library(script)
            or set(unseen_imports(script)) - _CONNECT_NOTHING
        ):
            continue
        yield rule.hit(
            starts[0].span,
            "The process group is created, but no gradient passes through it: each process trains its own model.",
            remedy="Wrap the model once it is on its device: model = DistributedDataParallel(model, "
            "device_ids=[local_rank]).",
        )
        return


def _may_be_parallel(module: Module) -> bool:
    """Whether transformers may split a model over the processes: `from_pretrained(..., tp_plan="auto")`."""
    return any(
        call.is_open or not _PARALLEL.isdisjoint(call.keywords)
        for call in calls_named(module, "from_pretrained")
    )


def _shares_gradients(script: Module) -> bool:
    """Whether ranks may exchange gradients or weights, and not only a number that is reported."""
    return any(
        _SHARES.search(use.text) and not _is_metric(module, use.node) and not _is_asked(module, use.node)
        for module in local_modules(script)
        for use in find_uses(module, "call", "name")
    )


def _is_asked(module: Module, node: ast.AST) -> bool:
    """Whether a class is only asked about: `isinstance(model, DDP)`."""
    call = module.enclosing(node, ast.Call) if not isinstance(node, ast.Call) else None
    return isinstance(call, ast.Call) and callee_name(call) in ("isinstance", "issubclass")


def _is_metric(module: Module, node: ast.AST) -> bool:
    """Whether a call of a collective certainly sends no gradient: what it gets is neither one nor a part of a model."""
    if not isinstance(node, ast.Call):
        # The name of what is called; the call itself is looked at, too.
        parent = module.parent(node)
        return isinstance(parent, ast.Call) and parent.func is node and _is_metric(module, parent)
    call = next((call for call in calls_named(module, *_COLLECTIVES) if call.node is node), None)
    tensor = call.expression("tensor", 0) if call is not None else None
    if call is None or tensor is None:
        return False
    given: list[ast.expr | None] = [tensor]
    bindings = module.reaching(tensor) if isinstance(tensor, ast.Name) else []
    for binding in bindings:
        if binding.kind == "parameter":
            passed = passed_arguments(module, binding)
            if not passed:
                return False
            given += passed
        elif binding.kind == "assign":
            given.append(binding.value)
        else:
            return False
    return all(value is not None and not _OF_MODEL.search(module.text(value)) for value in given) and any(
        value is not None and _METRIC.search(module.text(value)) for value in given
    )
