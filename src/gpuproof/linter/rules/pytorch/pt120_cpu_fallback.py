"""`"cuda" if torch.cuda.is_available() else "cpu"` in a script of a GPU job: without a working driver it trains on the CPU.

The job then takes many times as long, at the price of the GPU, and ends with success. A job that pays for a GPU should stop
instead. The rule is strict because the idiom is right for a script that also runs on laptops.

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.g4dn.xlarge").fit()
    # file: train.py
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # <-
    model = torch.nn.Linear(4, 2).to(device)

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py",
        role="r",
        framework_version="2.6",
        py_version="py312",
        instance_count=1,
        instance_type="ml.g4dn.xlarge",
    ).fit()
    # file: train.py
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("No usable GPU on a GPU instance.")
    model = torch.nn.Linear(4, 2).to("cuda")

Quiet: the job has no GPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.m5.xlarge").fit()
    # file: train.py
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.aws.instances import gpus_per_host, host_text, largest_job
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("PT120", "cpu-fallback", Severity.NOTE, when="strict", needs=("is_available",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    job = largest_job(project, module)
    if job is None or not gpus_per_host(project, job):
        return
    for node in module.nodes(ast.IfExp):
        if not isinstance(node.test, ast.Call):
            continue
        falls_back = isinstance(node.orelse, ast.Constant) and node.orelse.value == "cpu"
        if falls_back and module.qualified(node.test.func) == "torch.cuda.is_available":
            yield rule.hit(
                module.span(node),
                f"Without a usable GPU this trains on the CPU of {host_text(job)} at the GPU's price ({job.title}).",
                remedy="Stop if torch.cuda.is_available() is false, or use `gpuproof.runtime.require_gpu()`.",
            )
