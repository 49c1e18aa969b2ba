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
from gpuproof.linter.analysis.call import Call, calls_named, calls_to, origin_call
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.knowledge.aws.instances import find_instance, largest_job
from gpuproof.linter.knowledge.device_use import touches_device
from gpuproof.linter.knowledge.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("IO101", "dataloader-single-process", Severity.WARNING, needs=("DataLoader",))

_READS = re.compile(r"(^|[._])(open|imread|read\w*|load|transforms?|target_transform)$|(^|\.)Image\.|read_")


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    script = job.script if job is not None and job.script is not None else module
    if not any(_trains(part) and touches_device(part) for part in (module, script)):
        return
    if is_test(module) or runs_without_gpu(module, project):
        return
    instance = find_instance(project, job.instance_type) if job is not None else None
    for call in calls_to(module, "torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"):
        workers = call.argument("num_workers", 5)
        is_zero = workers.is_known and workers.number == 0
        if not (workers.is_absent or is_zero) or not _reads_files(module, call.expression("dataset", 0), 0):
            continue
        count, where = 4, ""
        if job is not None and instance is not None and instance.vcpus:
            count = max(1, min(8, instance.vcpus // max(1, instance.gpu_count)))
            where = f"; `{instance.name}` has {instance.vcpus} vCPUs ({job.title})"
        text = f"num_workers={count}, pin_memory=True, persistent_workers=True"
        if "pin_memory" in call.keywords:
            text = f"num_workers={count}, persistent_workers=True"
        yield rule.hit(
            call.span,
            f"`DataLoader` with{'' if is_zero else 'out'} num_workers{'=0' if is_zero else ''}: the training process prepares each batch itself while the GPU waits{where}.",
            remedy=f"Pass {text}.",
            fix=None if is_zero else Fix(f"Pass num_workers={count}", (add_keyword(call, text),)),
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
    if isinstance(node, ast.Name):
        values = [binding.value for binding in module.reaching(node) if binding.kind in ("assign", "unpack")]
        return bool(values) and all(_reads_files(module, value, depth + 1) for value in values)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        stored = _stored(module, node)
        return bool(stored) and all(_reads_files(module, value, depth + 1) for value in stored)
    if isinstance(node, ast.Subscript):
        return _reads_files(module, node.value, depth + 1)
    call = origin_call(module, node) if isinstance(node, ast.Call) else None
    if call is None:
        return False
    name = call.name or ""
    if name in ("torch.utils.data.random_split", "torch.utils.data.Subset", "torch.utils.data.ConcatDataset"):
        return _reads_files(module, call.node.args[0] if call.node.args else None, depth + 1)
    if name.startswith("torchvision.datasets.") and not name.endswith("FakeData"):
        return True
    return _own_dataset_reads(module, call)


def _stored(module: Module, read: ast.Attribute) -> list[ast.expr]:
    """The values that the methods of a class assign to one of its attributes."""
    owner = module.enclosing(read, ast.ClassDef)
    return [
        statement.value
        for statement in module.nodes(ast.Assign)
        if owner is not None and module.tree.is_within(statement, owner)
        for target in statement.targets
        if isinstance(target, ast.Attribute) and module.text(target) == module.text(read)
    ]


def _own_dataset_reads(module: Module, call: Call) -> bool:
    owner = module.classes.get(call.method) if isinstance(call.node.func, ast.Name) else None
    if owner is None or not any(base.startswith("torch.utils.data") for base in module.bases(owner)):
        return False
    items = [
        statement
        for statement in owner.body
        if isinstance(statement, ast.FunctionDef) and statement.name == "__getitem__"
    ]
    return uses(module, _READS, "call", "attribute", within=items)
