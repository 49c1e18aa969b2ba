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

Bad: in another file than the loop, and only the validation data has a sampler

    # file: data.py
    from torch.utils.data import DataLoader, DistributedSampler
    from torchvision.datasets import CIFAR10

    def build_loaders():
        train, val = CIFAR10("data", train=True), CIFAR10("data", train=False)
        val_loader = DataLoader(val, batch_size=8, sampler=DistributedSampler(val, shuffle=False))
        return DataLoader(train, batch_size=8), val_loader  # <-
    # file: train.py
    import torch
    import torch.distributed as dist
    from data import build_loaders
    from torch.nn.parallel import DistributedDataParallel

    class Trainer:
        def __init__(self):
            self.model = DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
            self.train_loader, self.val_loader = build_loaders()

        def fit(self):
            for x, y in self.train_loader:
                self.model(x.cuda()).sum().backward()

    dist.init_process_group("nccl")
    Trainer().fit()

Bad: DeepSpeed does not split a loader of the script's own

    import deepspeed
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    engine, _, _, _ = deepspeed.initialize(model=torch.nn.Linear(8, 1), config="ds_config.json")
    loader = DataLoader(TensorDataset(torch.ones(9, 8)), batch_size=3, shuffle=True)  # <-
    for (x,) in loader:
        engine.backward(engine(x.cuda()).sum())
        engine.step()

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

Quiet: one of two loaders

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    def loader(data, distributed):
        if distributed:
            return DataLoader(data, sampler=DistributedSampler(data))
        return DataLoader(data, shuffle=True)

    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1).cuda())
    for (x,) in loader(TensorDataset(torch.ones(9, 8)), dist.is_initialized()):
        model(x.cuda()).sum().backward()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.branches import are_exclusive
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, origin_call
from gpuproof.linter.analysis.flow.call_targets import methods
from gpuproof.linter.analysis.flow.creations import created_classes, creations
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import script_uses
from gpuproof.linter.knowledge.distribution.deepspeed import initializations
from gpuproof.linter.knowledge.distribution.entries import (
    computes_gradients,
    group_scripts,
    iterated,
    joins_group,
    program_mentions,
    scripts_with,
    training_loops,
)
from gpuproof.linter.knowledge.distribution.launchers import shards_input
from gpuproof.linter.knowledge.distribution.ranks import uses_distribution_library
from gpuproof.linter.knowledge.distribution.samplers import sampler_of_one_process, seeds_by_rank, splits_data
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DS107", "ddp-without-distributed-sampler", Severity.ERROR, needs=("DataLoader",))

_SAMPLES = re.compile(r"(^|\.)(Distributed\w*Sampler|\w*BatchSampler)$")
_KEYWORDS = re.compile(r"^(num_replicas|num_shards|shard\w*)$")
_RANKED = re.compile(r"rank|world_size|hosts?\b", re.IGNORECASE)
_OF_EVERYTHING = re.compile(r"^torch\.utils\.data\.(sampler\.)?(Random|Sequential)Sampler$")
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if not program_mentions(module, "init_process_group", "deepspeed"):
        return
    loaders = calls_to(module, *_LOADERS)
    scripts = [*group_scripts(module), *_engine_scripts(module)] if loaders else []
    for script in dict.fromkeys(scripts):
        if uses_distribution_library(script, "deepspeed") or any(
            map(shards_input, project.jobs_running(script))
        ):
            continue
        if (unused := _unused_sampler(module)) is not None:
            yield rule.hit(
                unused.span,
                "Every rank reads the whole dataset: a DistributedSampler is created for it, but this DataLoader does not get it.",
                remedy="Pass sampler=sampler without shuffle=True, and call sampler.set_epoch(epoch) before each epoch.",
            )
            return
        if (idle := sampler_of_one_process(module)) is not None:
            yield rule.hit(
                idle.span,
                "Every rank reads the whole dataset: this sampler is created for one process, and for several there is none.",
                remedy="Turn the condition around: create the DistributedSampler if there are several processes.",
            )
            return
        if any(map(seeds_by_rank, local_modules(script))) or splits_data(script):
            continue
        trained = _trained_loaders(script)
        samples = script_uses(script, _SAMPLES, "call", "name") or script_uses(script, _KEYWORDS, "keyword")
        by_group = joins_group(script)
        for call in loaders:
            # The engine of DeepSpeed has its own loader for `training_data`.
            if not by_group and call.node not in trained:
                continue
            if not _reads_everything(call, is_trained=call.node in trained):
                continue
            if (samples and call.node not in trained) or _is_of_rank(module, call):
                continue
            yield rule.hit(
                call.span,
                f"Every rank reads the whole dataset: the script {'creates a process group' if by_group else 'starts DeepSpeed'}, but this "
                "DataLoader has no DistributedSampler.",
                remedy="Use sampler = DistributedSampler(dataset), DataLoader(dataset, sampler=sampler, ...) without "
                "shuffle=True, and sampler.set_epoch(epoch) before each epoch.",
            )
            return


def _engine_scripts(module: Module) -> list[Module]:
    """The scripts that run a module and train in DeepSpeed's engine."""
    return [
        script
        for script in scripts_with(module)
        if computes_gradients(script) and any(initializations(home) for home in local_modules(script))
    ]


def _reads_everything(call: Call, *, is_trained: bool) -> bool:
    """Whether a loader certainly reads its whole dataset: it shuffles it, or the training reads a dataset that cannot split."""
    if not _has_no(call, "batch_sampler", 4):
        return False
    if _samples_everything(call, is_trained=is_trained):
        return True
    if not _has_no(call, "sampler", 3):
        return False
    shuffle = call.argument("shuffle", 2)
    if shuffle.is_known and shuffle.flag is True:
        return not is_trained or _is_always(call)
    in_order = shuffle.is_absent or (shuffle.is_known and shuffle.flag is False)
    return in_order and is_trained and _is_always(call) and _is_map_style(call)


def _is_always(call: Call) -> bool:
    """Whether no branch decides about a loader, such as one with a sampler in the other."""
    module = call.module
    branches = [node for node in module.tree.ancestors(call.node) if isinstance(node, (ast.If, ast.IfExp))]
    if any("__main__" not in module.text(branch.test) for branch in branches):
        return False
    function = module.function_of(call.node)
    others = [
        other.node
        for other in calls_named(module, "DistributedSampler", "DataLoader")
        if other.node is not call.node and module.function_of(other.node) is function
    ]
    return not any(are_exclusive(module, other, call.node) for other in others)


def _is_map_style(call: Call) -> bool:
    """Whether the dataset of a loader certainly is read by index, and so by every rank as a whole."""
    module, data = call.module, call.expression("dataset", 0)
    made = creations(module, data)
    if not made:
        return False
    for dataset in made:
        name = dataset.name or ""
        if name.startswith("torchvision.datasets.") or name in (
            "torch.utils.data.TensorDataset",
            "torch.utils.data.Subset",
        ):
            # Each process draws random data of its own.
            if any(_is_random(dataset, argument) for argument in dataset.node.args):
                return False
            continue
        owners = created_classes(module, data)
        if not owners or not all(
            isinstance(owner.node, ast.ClassDef)
            and {"__getitem__", "__len__"} <= {method.name for method in methods(owner.node)}
            for owner in owners
        ):
            return False
    return True


def _is_random(dataset: Call, argument: ast.expr) -> bool:
    made = origin_call(dataset.module, argument)
    return made is not None and made.method in ("rand", "randn", "randint", "random_", "normal")


def _trained_loaders(script: Module) -> set[ast.Call]:
    """The calls that create the loaders that the training loops of a script certainly read."""
    found: set[ast.Call] = set()
    for home in local_modules(script):
        for loop in training_loops(home):
            found |= {made.node for made in creations(home, iterated(home, loop.iter))}
    return found


def _is_of_rank(module: Module, call: Call) -> bool:
    """Whether the dataset of a loader, or what creates it, names a rank."""
    data = call.expression("dataset", 0)
    created = [made.node for made in creations(module, data)]
    names = [
        node.id if isinstance(node, ast.Name) else node.attr
        for made in (data, module.origin(data), *created)
        if made is not None
        for node in ast.walk(made)
        if isinstance(node, (ast.Name, ast.Attribute))
    ]
    return any(_RANKED.search(name) for name in names)


def _has_no(call: Call, name: str, position: int) -> bool:
    value = call.argument(name, position)
    return value.is_absent or (value.is_known and value.value is None)


def _samples_everything(call: Call, *, is_trained: bool) -> bool:
    """Whether the sampler of a loader draws from the whole dataset on each rank."""
    samplers = creations(call.module, call.expression("sampler", 3))
    return bool(samplers) and all(
        _OF_EVERYTHING.match(sampler.name or "") is not None
        and sampler.argument("num_samples", 2).is_absent
        and (is_trained or sampler.method == "RandomSampler")
        for sampler in samplers
    )


def _unused_sampler(module: Module) -> Call | None:
    """A loader that shuffles a dataset for which a sampler was created in the same function."""
    sampled = {
        (module.function_of(call.node), module.text(data))
        for call in calls_named(module, "DistributedSampler")
        if isinstance(data := call.expression("dataset", 0), (ast.Name, ast.Attribute))
    }
    for call in calls_named(module, "DataLoader") if sampled else ():
        data = call.expression("dataset", 0)
        shuffle = call.argument("shuffle", 2)
        if (
            isinstance(data, (ast.Name, ast.Attribute))
            and (module.function_of(call.node), module.text(data)) in sampled
            and shuffle.is_known
            and shuffle.flag is True
            and call.argument("sampler", 3).is_absent
            and _is_always(call)
        ):
            return call
    return None
