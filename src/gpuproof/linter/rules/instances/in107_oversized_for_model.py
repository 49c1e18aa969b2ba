"""A model with a few thousand parameters trains on a GPU: copies and launches take longer than the arithmetic.

A CPU instance often trains it as fast, for a tenth of the price. The rule adds up layers of PyTorch whose sizes are written out,
in scripts that have no other model. It is strict, because the input may be large.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.p3.2xlarge").fit()  # <-
    # file: train.py
    from torch import nn

    model = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 1)).cuda()
    for x, y in loader:
        criterion(model(x.cuda()), y.cuda()).backward()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py",
        role="r",
        framework_version="2.6",
        py_version="py312",
        instance_count=1,
        instance_type="ml.c5.xlarge",
    )
    # file: train.py
    import os

    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.load(os.path.join(os.environ["SM_CHANNEL_TRAINING"], "houses.pt"))
    for step in range(1000):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))

Quiet: the width is an argument

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    from torch import nn

    model = nn.Sequential(nn.Linear(13, args.width), nn.ReLU(), nn.Linear(args.width, 1)).cuda()
    for x, y in loader:
        criterion(model(x.cuda()), y.cuda()).backward()

Quiet: the backbone has other layers

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import torchvision
    from torch import nn

    model = torchvision.models.resnet18()
    model.fc = nn.Linear(512, 10)
    model.cuda()
    for x, y in loader:
        criterion(model(x.cuda()), y.cuda()).backward()
"""

from math import prod

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.local_imports import local_modules, unseen_imports
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IN107", "oversized-for-model", Severity.NOTE, when="strict")

_FEW_PARAMETERS = 100_000
_WEIGHTLESS = frozenset(
    [
        "Sequential",
        "Module",
        "ModuleList",
        "ModuleDict",
        "ReLU",
        "GELU",
        "SiLU",
        "Tanh",
        "Sigmoid",
        "Softmax",
        "LogSoftmax",
        "LeakyReLU",
        "ELU",
        "Dropout",
        "Dropout2d",
        "Flatten",
        "Identity",
        "MaxPool1d",
        "MaxPool2d",
        "AvgPool1d",
        "AvgPool2d",
        "AdaptiveAvgPool1d",
        "AdaptiveAvgPool2d",
        "CrossEntropyLoss",
        "MSELoss",
        "L1Loss",
        "BCELoss",
        "BCEWithLogitsLoss",
        "NLLLoss",
        "SmoothL1Loss",
        "DataParallel",
    ]
)
"""Classes of torch.nn without parameters of their own."""


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    instance = find_instance(project, job.instance_type)
    if job.kind != "training" or job.script is None or job.runs_others:
        return
    if instance is None or not instance.gpu_count or unseen_imports(job.script):
        return
    count = _parameters(local_modules(job.script))
    if count is not None and 0 < count < _FEW_PARAMETERS:
        yield rule.hit(
            job.where(job.instance_type),
            f"The model of `{job.script_title}` has {count:,} parameters: the {instance.gpu_model} of `{instance.name}` mostly waits.",
            remedy="Measure it on a CPU instance, or train several such models on one GPU.",
        )


def _parameters(modules: list[Module]) -> int | None:
    """The parameters of the layers of a program; None if it may have others."""
    total = 0
    for module in modules:
        if calls_named(module, "from_pretrained", "create_model") or calls_to(module, "torchvision.models.*"):
            return None
        for call in calls_to(module, "torch.nn.*"):
            if call.name is None or call.name.count(".") != 2 or call.method in _WEIGHTLESS:
                continue
            count = _of_layer(call)
            if count is None or module.loops_around(call.node):
                return None
            total += count
    return total


def _of_layer(call: Call) -> int | None:
    """The parameters of a layer whose sizes are written out; None for others."""

    def number(keyword: str, position: int) -> int | None:
        value = call.argument(keyword, position)
        return value.number if value.is_known and isinstance(value.number, int) else None

    match call.method:
        case "Linear":
            sizes = (number("in_features", 0), number("out_features", 1))
        case "Conv1d":
            sizes = (number("in_channels", 0), number("out_channels", 1), number("kernel_size", 2))
        case "Conv2d":
            side = number("kernel_size", 2)
            sizes = (number("in_channels", 0), number("out_channels", 1), side, side)
        case "Embedding":
            sizes = (number("num_embeddings", 0), number("embedding_dim", 1))
        case "BatchNorm1d" | "BatchNorm2d":
            sizes = (2, number("num_features", 0))
        case "LayerNorm":
            sizes = (2, number("normalized_shape", 0))
        case _:
            return None
    known = [size for size in sizes if size is not None]
    return prod(known) if len(known) == len(sizes) else None
