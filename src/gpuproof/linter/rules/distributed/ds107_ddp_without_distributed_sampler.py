"""The processes form a group, but each of them reads the whole dataset: an epoch takes as long as with one GPU.

`DataLoader(shuffle=True)` is not aware of ranks. Without a `DistributedSampler`, or another way to give each rank its
share, every process reads everything, and all GPUs but one repeat work. The rule does not report scripts in which
anything splits the data by rank.

Bad:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, TensorDataset

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    loader = DataLoader(TensorDataset(torch.ones(9, 8)), batch_size=3, shuffle=True)  # <-
    for (x,) in loader:
        model(x.cuda()).sum().backward()

Bad: the sampler is not passed to the loader

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    data = TensorDataset(torch.ones(9, 8))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=3, shuffle=True)  # <-
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            model(x.cuda()).sum().backward()

Good:

    import os
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    data = TensorDataset(torch.ones(9, 8))
    loader = DataLoader(data, batch_size=3, sampler=DistributedSampler(data))
    for (x,) in loader:
        model(x.cuda()).sum().backward()

Quiet: a loader of another dataset shuffles

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    data, probe = TensorDataset(torch.ones(9, 8)), TensorDataset(torch.ones(3, 8))
    preview = DataLoader(probe, shuffle=True)
    for (x,) in DataLoader(data, batch_size=3, sampler=DistributedSampler(data)):
        model(x.cuda()).sum().backward()

Bad: a sampler that knows nothing of ranks

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, RandomSampler

    dist.init_process_group("nccl")
    data = list(range(100))
    for x in DataLoader(data, batch_size=8, sampler=RandomSampler(data)):  # <-
        torch.ones(1, requires_grad=True).sum().backward()

Quiet: the dataset itself selects every n-th sample

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader, Subset, TensorDataset

    dist.init_process_group("nccl")
    model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    data = Subset(TensorDataset(torch.ones(9, 8)), range(dist.get_rank(), 9, dist.get_world_size()))
    for (x,) in DataLoader(data, batch_size=3, shuffle=True):
        model(x.cuda()).sum().backward()

Quiet: Accelerate splits the loader

    import torch
    import torch.distributed as dist
    from accelerate import Accelerator
    from torch.utils.data import DataLoader

    dist.init_process_group("nccl")
    model, loader = Accelerator().prepare(torch.nn.Linear(8, 1), DataLoader([], shuffle=True))
    for x in loader:
        model(x).sum().backward()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, calls_within, origin_call
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, script_uses
from gpuproof.linter.knowledge.distribution.launchers import shards_input
from gpuproof.linter.knowledge.distribution.ranks import process_group_inits, uses_distribution_library
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS107", "ddp-without-distributed-sampler", Severity.ERROR, needs=("init_process_group",))

_SPLITS = re.compile(
    r"(^|\.)(Distributed\w*Sampler|\w*BatchSampler|split_dataset_by_node|IterableDataset|StatefulDataLoader|shard\w*|partition\w*"
    r"|DTensor|parallelize_module|PipelineStage|Pipe)$|^(webdataset|wds|torch\.distributed\.(rpc|pipelining|tensor))\."
)
"""Samplers, datasets and functions that give each rank its own data."""
_KEYWORDS = re.compile(r"^(num_replicas|num_shards|shard\w*)$")

_RANKED = re.compile(r"rank|world_size|hosts?\b", re.IGNORECASE)


_OF_EVERYTHING = ("torch.utils.data.RandomSampler", "torch.utils.data.sampler.RandomSampler")


@rule.module
def check(module: Module, project: Project) -> Hits:
    starts = process_group_inits(module)
    if not starts or not calls_named(module, "backward"):
        return
    if (unused := _unused_sampler(module)) is not None:
        yield rule.hit(
            unused.span,
            "Every rank reads the whole dataset: a DistributedSampler is created for it, but this DataLoader does not get it.",
            remedy="Pass sampler=sampler without shuffle=True, and call sampler.set_epoch(epoch) before each epoch.",
        )
        return
    of_others = _samplers_of_others(module)
    if _splits_data(module, of_others) or script_uses(module, _KEYWORDS, "keyword"):
        return
    if uses_distribution_library(module) or _seeds_by_rank(module):
        return
    if any(shards_input(job) for job in project.jobs_running(module)):
        return
    for call in calls_to(module, "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"):
        shuffle = call.argument("shuffle", 2)
        is_shuffled = shuffle.is_known and shuffle.flag is True and _has_no(call, "sampler", 3)
        if not _has_no(call, "batch_sampler", 4) or not (is_shuffled or _samples_everything(call)):
            continue
        data = call.expression("dataset", 0)
        origin = module.origin(data)
        names = [
            node.id if isinstance(node, ast.Name) else node.attr
            for made in (data, origin)
            if made is not None
            for node in ast.walk(made)
            if isinstance(node, (ast.Name, ast.Attribute))
        ]
        if any(_RANKED.search(name) for name in names):
            continue
        yield rule.hit(
            call.span,
            "Every rank reads the whole dataset: the script creates a process group, but this DataLoader has no "
            "DistributedSampler.",
            remedy="Use sampler = DistributedSampler(dataset), DataLoader(dataset, sampler=sampler, ...) without "
            "shuffle=True, and sampler.set_epoch(epoch) before each epoch.",
        )
        return


def _has_no(call: Call, name: str, position: int) -> bool:
    value = call.argument(name, position)
    return value.is_absent or (value.is_known and value.value is None)


def _samples_everything(call: Call) -> bool:
    """Whether the sampler of a loader draws from the whole dataset on each rank."""
    sampler = origin_call(call.module, call.expression("sampler", 3))
    return (
        sampler is not None
        and sampler.name in _OF_EVERYTHING
        and sampler.argument("num_samples", 2).is_absent
    )


def _unused_sampler(script: Module) -> Call | None:
    """A loader that shuffles a dataset for which a sampler was created in the same function."""
    for module in local_modules(script):
        sampled = {
            (module.function_of(call.node), data.id)
            for call in calls_named(module, "DistributedSampler")
            if isinstance(data := call.expression("dataset", 0), ast.Name)
        }
        for call in calls_named(module, "DataLoader"):
            data = call.expression("dataset", 0)
            shuffle = call.argument("shuffle", 2)
            if (
                isinstance(data, ast.Name)
                and (module.function_of(call.node), data.id) in sampled
                and shuffle.is_known
                and shuffle.flag is True
                and call.argument("sampler", 3).is_absent
                and module.enclosing(call.node, ast.If, ast.IfExp) is None
            ):
                return call
    return None


def _seeds_by_rank(module: Module) -> bool:
    """Whether code computes something from the rank, such as a seed or the start of a slice."""
    nodes = (*module.nodes(ast.BinOp), *module.nodes(ast.Slice))
    return any(
        isinstance(node, ast.Name) and "rank" in node.id and "local" not in node.id
        for node in nodes
        for node in ast.iter_child_nodes(node)
    )


def _samplers_of_others(script: Module) -> set[ast.AST]:
    """The samplers of datasets other than those that the training loop certainly reads, such as of the validation set."""
    found: set[ast.AST] = set()
    for module in local_modules(script):
        trained = {data for loop in module.nodes(ast.For) if (data := _trained(module, loop)) is not None}
        for call in calls_named(module, "DistributedSampler") if trained else ():
            data = call.expression("dataset", 0)
            if isinstance(data, ast.Name) and data.id not in trained:
                found |= {call.node, call.node.func}
    return found


def _trained(module: Module, loop: ast.For) -> str | None:
    """The dataset of a loop that trains, if its loader certainly shuffles it all, in every run."""
    if not calls_within(calls_named(module, "backward"), loop):
        return None
    loader = next(
        (
            made
            for node in ast.walk(loop.iter)
            if isinstance(node, ast.Name)
            and (made := origin_call(module, node)) is not None
            and made.method == "DataLoader"
        ),
        None,
    )
    if loader is None or module.enclosing(loader.node, ast.If, ast.IfExp) is not None:
        return None
    data = loader.expression("dataset", 0)
    is_all = loader.argument("shuffle", 2).flag is True and _has_no(loader, "sampler", 3)
    return data.id if is_all and isinstance(data, ast.Name) else None


def _splits_data(script: Module, of_others: set[ast.AST]) -> bool:
    """Whether something may give each rank its own data; `text.partition(":")` splits a text."""
    return any(
        _SPLITS.search(use.text)
        and use.node not in of_others
        and not (
            isinstance(use.node, ast.Call)
            and use.text.endswith("partition")
            and any(
                isinstance(given, ast.Constant) and isinstance(given.value, str) for given in use.node.args
            )
        )
        for module in local_modules(script)
        for use in find_uses(module, "call", "name")
    )
