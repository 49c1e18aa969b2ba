"""The training loop computes in float32 on a GPU with tensor cores, which are several times as fast in half precision.

`torch.autocast` runs matrix products in bfloat16 or float16, and `torch.set_float32_matmul_precision("high")` lets float32
products use TF32 on GPUs since Ampere. Both change the numerics slightly, so the rule is strict.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: train.py
    import torch

    model = torch.nn.Linear(4, 2).cuda()
    for x, y in loader:
        loss = model(x.cuda()).sum()
        loss.backward()  # <-

Good:

    # file: train.py
    import torch

    model = torch.nn.Linear(4, 2).cuda()
    for x, y in loader:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x.cuda()).sum()
        loss.backward()

Quiet: no GPU job runs it

    import torch

    model = torch.nn.Linear(4, 2).cuda()
    for x, y in loader:
        loss = model(x.cuda()).sum()
        loss.backward()
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import uses
from gpuproof.linter.knowledge.aws.instances import find_instance, largest_job
from gpuproof.linter.knowledge.frameworks.torch import imports_device_manager
from gpuproof.linter.knowledge.unused_functions import used_code
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PF101", "no-mixed-precision", Severity.NOTE, when="strict", needs=("backward",))

_REDUCED = re.compile(r"autocast|GradScaler|bfloat16|float16|(^|\.)half$|matmul_precision|allow_tf32|amp\.")
_FIRST_TENSOR_CORES = (7, 0)
"""Compute capability of the V100, the first GPU with tensor cores."""


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    instance = find_instance(project, job.instance_type) if job is not None else None
    gpu = project.catalogue.gpu(instance.gpu_model) if instance is not None and instance.gpu_model else None
    if job is None or gpu is None or (gpu.compute_capability or (0, 0)) < _FIRST_TENSOR_CORES:
        return
    calls = [call for call in calls_named(module, "backward") if call.receiver is not None]
    if not calls or imports_device_manager(module):
        return
    if any(
        uses(other, _REDUCED, "call", "name", "attribute", within=used_code(other))
        for other in local_modules(job.script or module)
    ):
        return
    yield rule.hit(
        calls[0].span,
        f"The loop computes in float32; the tensor cores of the {gpu.name} are several times as fast in half precision ({job.title}).",
        remedy='Compute the loss in torch.autocast("cuda", dtype=torch.bfloat16), or float16 with a GradScaler.',
    )
