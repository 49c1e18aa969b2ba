"""A model in double precision runs at a fraction of the GPU's speed: 1/32 or 1/64 of its float32 rate on most GPUs of AWS.

Only the A100, H100, H200, V100 and P100 have fast double precision units. `model.double()` and
`torch.set_default_dtype(torch.float64)` usually come from a dtype error with NumPy arrays, which are float64 by default:
convert the data to float32 instead.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import torch
    from torch import nn

    model = nn.Linear(4, 2).double().cuda()  # <-

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import torch

    torch.set_default_dtype(torch.float64)  # <-
    model = torch.nn.Linear(4, 2).cuda()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py",
        role="r",
        framework_version="2.6",
        py_version="py312",
        instance_count=1,
        instance_type="ml.g5.xlarge",
    ).fit()
    # file: train.py
    import numpy as np
    import torch
    from torch import nn

    model = nn.Linear(4, 2).cuda()
    array = np.load("/opt/ml/input/data/training/x.npy")
    x = torch.from_numpy(array).float().cuda()

Quiet: an A100 has units for double precision

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.p4d.24xlarge").fit()
    # file: train.py
    from torch import nn

    model = nn.Linear(4, 2).double().cuda()

Quiet: a tensor on the CPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import torch

    total = torch.zeros(3).double().sum()
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import Call, calls_named, calls_to
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.types.infer import type_of
from gpuproof.linter.analysis.types.model import TypeKind
from gpuproof.linter.knowledge.aws.instances import find_instance, largest_job
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF115", "float64-model", Severity.WARNING, when="link", needs=("double", "float64"))

_FAST = frozenset({"A100", "H100", "H200", "V100", "P100", "GH200", "B200", "B300", "GB200"})
"""GPUs whose float64 rate is half of their float32 rate, by NVIDIA's data sheets; Blackwell's is lower, but not 1/64."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    instance = find_instance(project, job.instance_type) if job is not None else None
    if job is None or instance is None or not instance.gpu_model or not module.imports("torch"):
        return
    if instance.gpu_model.partition("-")[0] in _FAST:
        return
    for call in [*_models(module), *_defaults(module)]:
        yield rule.hit(
            call.span,
            f"Double precision runs at 1/32 of the float32 rate or less on the {instance.gpu_model} of `{instance.name}` ({job.title}).",
            remedy="Keep the model in float32, and convert the data: torch.from_numpy(array).float().",
        )


def _models(module: Module) -> list[Call]:
    return [
        call
        for call in calls_named(module, "double")
        if call.receiver is not None and type_of(module, call.receiver).kind is TypeKind.MODULE
    ]


def _defaults(module: Module) -> list[Call]:
    calls = calls_to(module, "torch.set_default_dtype")
    return [
        call
        for call in calls
        if module.qualified(call.expression("d", 0)) in ("torch.float64", "torch.double")
    ]
