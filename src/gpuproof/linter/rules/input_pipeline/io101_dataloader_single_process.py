"""A DataLoader without `num_workers` reads, decodes and augments data in the training process, while the GPU waits.

PyTorch's default is 0 worker processes, and its performance tuning guide lists this first. With workers, the next
batches are prepared while the GPU computes. The rule reports loaders over datasets that read or decode files, in
scripts that use a GPU. It does not report tensors in memory, for which workers only add overhead.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    model = torch.nn.Linear(4, 2).cuda()
    loader = DataLoader(ImageFolder("train"), batch_size=64, shuffle=True)  # <-
    for x, y in loader:
        model(x.cuda()).sum().backward()

Bad: the default, written out

    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    model = torch.nn.Linear(4, 2).cuda()
    for x, y in DataLoader(ImageFolder("train"), batch_size=64, num_workers=0):  # <-
        model(x.cuda()).sum().backward()

Bad: a module of Lightning

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import lightning
    from tiles import Data
    from model import Model

    lightning.Trainer(accelerator="gpu", devices=1).fit(Model(), Data())
    # file: tiles.py
    import lightning
    import numpy as np
    from torch.utils.data import DataLoader, Dataset

    class Tiles(Dataset):
        def __getitem__(self, index):
            return np.load(f"{index}.npz")

    class Data(lightning.LightningDataModule):
        def setup(self, stage=None):
            self.training = Tiles()

        def train_dataloader(self):
            return DataLoader(self.training, batch_size=8)  # <-

Bad: the factory of another file gets 0 workers

    # file: train.py
    import torch
    from loaders import make_loaders

    model = torch.nn.Linear(4, 2).cuda()
    train, test = make_loaders("/opt/ml/input/data", 64)
    for x, y in train:
        model(x.cuda()).sum().backward()
    # file: loaders.py
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def make_loaders(root, batch_size, workers=0):
        train, test = ImageFolder(f"{root}/train"), ImageFolder(f"{root}/test")
        return (
            DataLoader(train, batch_size=batch_size, shuffle=True, num_workers=workers),  # <-
            DataLoader(test, batch_size=batch_size, num_workers=workers),  # <-
        )

Good:

    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    model = torch.nn.Linear(4, 2).cuda()
    loader = DataLoader(ImageFolder("train"), batch_size=64, shuffle=True, num_workers=4, pin_memory=True)
    for x, y in loader:
        model(x.cuda()).sum().backward()

Quiet: tensors in memory

    import torch
    from torch.utils.data import DataLoader, TensorDataset

    model = torch.nn.Linear(4, 2).cuda()
    for (x,) in DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2):
        model(x.cuda()).sum().backward()

Quiet: the loader's function moves the batch, which only works in the training process

    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def on_gpu(items):
        return torch.stack([image for image, _ in items]).cuda()

    model = torch.nn.Linear(4, 2).cuda()
    for x in DataLoader(ImageFolder("train"), collate_fn=on_gpu):
        model(x).sum().backward()

Quiet: the arguments may contain the number of workers

    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    def train(**kwargs):
        model = torch.nn.Linear(4, 2).cuda()
        for x, y in DataLoader(ImageFolder("train"), **kwargs):
            model(x.cuda()).sum().backward()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, call_of, calls_named, calls_to, calls_within
from gpuproof.linter.analysis.flow.call_targets import Definition, find_method, returned_values
from gpuproof.linter.analysis.flow.called import called_functions
from gpuproof.linter.analysis.flow.creations import created_classes
from gpuproof.linter.analysis.flow.references import attribute_stores
from gpuproof.linter.analysis.flow.sources import sources, targets
from gpuproof.linter.analysis.flow.values import program_value
from gpuproof.linter.analysis.local_imports import program_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.aws.instances import find_instance, largest_job
from gpuproof.linter.knowledge.devices.device_use import program_may_use_device
from gpuproof.linter.knowledge.frameworks.torch import is_test, moves_to_gpu, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix

rule = Rule("IO101", "dataloader-single-process", Severity.WARNING, needs=("DataLoader",))

_READS = re.compile(r"(^|[._])(open|imread|read\w*|load|transforms?|target_transform)$|(^|\.)Image\.|read_")


@rule.module
def check(module: Module, project: Project) -> Hits:
    if is_test(module) or runs_without_gpu(module, project) or not module.imports("torch"):
        return
    calls = calls_to(module, "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
    if not calls:
        return
    job = largest_job(project, module)
    script = job.script if job is not None and job.script is not None else module
    instance = find_instance(project, job.instance_type) if job is not None else None
    has_gpu = instance is not None and bool(instance.gpu_count)
    if not any(map(_trains, (*program_modules(module), script))) or not (
        has_gpu or program_may_use_device(module)
    ):
        return
    for call in calls:
        workers = call.argument("num_workers", 5)
        if (written := call.expression("num_workers", 5)) is not None:
            workers = program_value(module, written)
        is_zero = workers.is_sure and workers.number == 0
        if not (workers.is_absent or is_zero) or not _reads_files(module, call.expression("dataset", 0), 0):
            continue
        if _moves_items(call):
            continue
        count, where = 4, ""
        if job is not None and instance is not None and instance.vcpus:
            count = max(1, min(8, instance.vcpus // max(1, instance.gpu_count)))
            where = f"; `{instance.name}` has {instance.vcpus} vCPUs ({job.title})"
        text = f"num_workers={count}, pin_memory=True, persistent_workers=True"
        if "pin_memory" in call.keywords:
            text = f"num_workers={count}, persistent_workers=True"
        given = "without num_workers" if not is_zero else "with num_workers=0"
        if is_zero and not isinstance(written, ast.Constant):
            given = f"with num_workers={module.text(written)}, which is 0" if written is not None else given
        yield rule.hit(
            call.span,
            f"`DataLoader` {given}: the training process prepares each batch itself while the GPU waits{where}.",
            remedy=f"Pass {text}.",
            severity=lowered(rule.severity) if is_zero and not workers.is_known else None,
            fix=None if is_zero else Fix(f"Pass num_workers={count}", (add_keyword(call, text),)),
        )


def _moves_items(loader: Call) -> bool:
    """Whether the loader's own functions move what they read: in worker processes, CUDA cannot be initialized."""
    module = loader.module
    collate = loader.expression("collate_fn")
    made = created_classes(module, loader.expression("dataset", 0))
    code: list[tuple[Module, ast.AST]] = [(owner.module, owner.node) for owner in made]
    if collate is not None:
        code += [(module, collate), *((each.module, each.node) for each in targets(module, collate))]
    return any(
        moves_to_gpu(move)
        for home, node in code
        for move in calls_within(calls_named(home, "to", "cuda"), node)
    )


def _trains(module: Module) -> bool:
    """Whether a module computes gradients itself, or has Lightning train a model."""
    if any(candidate.receiver is not None for candidate in calls_named(module, "backward")):
        return True
    return module.imports("lightning", "pytorch_lightning") and bool(calls_named(module, "fit"))


def _reads_files(module: Module, node: ast.expr | None, depth: int) -> bool:
    """Whether a dataset certainly does work for each item: reads or decodes files, or transforms."""
    if depth > 6 or node is None:
        return False
    if isinstance(node, ast.Call):
        return _made_reads(module, node, depth)
    traced = sources(module, node)
    if traced.complete and traced.found and all(source.node is not node for source in traced.found):
        return all(_reads_files(source.module, source.node, depth + 1) for source in traced.found)
    if isinstance(node, ast.Name):
        # `train, test = random_split(dataset, [0.9, 0.1])`
        values = [binding.value for binding in module.reaching(node) if binding.kind in ("assign", "unpack")]
        return bool(values) and all(_reads_files(module, value, depth + 1) for value in values)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        stored = _stored(module, node)
        return bool(stored) and all(_reads_files(module, value, depth + 1) for value in stored)
    return _reads_files(module, node.value, depth + 1) if isinstance(node, ast.Subscript) else False


def _made_reads(module: Module, node: ast.Call, depth: int) -> bool:
    """Whether the dataset that a call makes does work for each item."""
    call = call_of(module, node)
    name = call.name or "" if call is not None else ""
    if call is None:
        return False
    if name in ("torch.utils.data.random_split", "torch.utils.data.Subset", "torch.utils.data.ConcatDataset"):
        return _reads_files(module, node.args[0] if node.args else None, depth + 1)
    if name.startswith("torchvision.datasets.") and not name.endswith("FakeData"):
        return True
    found = targets(module, node.func)
    if not found:
        return False
    return all(
        _own_dataset_reads(made)
        if isinstance(made.node, ast.ClassDef)
        else bool(returned_values(made))
        and all(_reads_files(made.module, value, depth + 1) for value in returned_values(made))
        for made in found
    )


def _stored(module: Module, read: ast.Attribute) -> list[ast.expr]:
    """The values that the methods of a class assign to one of its attributes, also to several at once."""
    owner = module.enclosing(read, ast.ClassDef)
    return [
        statement.value
        for store in attribute_stores(module, read.attr)
        if owner is not None
        and module.tree.is_within(store, owner)
        and isinstance(statement := module.tree.statement(store), ast.Assign)
    ]


def _own_dataset_reads(made: Definition) -> bool:
    """Whether `__getitem__` of the project's dataset, or a method that it calls, reads files."""
    module, owner = made
    assert isinstance(owner, ast.ClassDef)
    if any(base.startswith("torchvision.datasets.") for base in module.bases(owner)):
        return True
    if not any(base.startswith("torch.utils.data") for base in module.bases(owner)):
        return False
    read = find_method(made, "__getitem__")
    code = [read, *called_functions(*read)] if read is not None else []
    return any(uses(part.module, _READS, "call", "attribute", within=part.node) for part in code)
