"""`CUDA_VISIBLE_DEVICES` set to an empty text or -1 hides every GPU from the process, which then runs on the CPU.

CUDA reads the variable when it is first used. The line is often left over from an experiment on a laptop; on a GPU
instance the GPU is billed but idle, and no framework warns.

Bad:

    import os
    import torch

    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # <-
    model = torch.nn.Linear(4, 2)

Good:

    import os
    import torch

    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    model = torch.nn.Linear(4, 2).cuda()

Quiet: only if the user requests the CPU

    import argparse
    import os
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--cpu", action="store_true")
    if parser.parse_args().cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""

Quiet: a job that runs on a CPU

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.m5.xlarge").fit()
    # file: train.py
    import os
    import torch

    os.environ["CUDA_VISIBLE_DEVICES"] = ""
"""

import ast

from gpuproof.findings import Severity
from gpuproof.linter.analysis.evaluation.evaluate import evaluate
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.knowledge.instances import gpus_per_host, largest_job
from gpuproof.linter.knowledge.torch import is_test, runs_without_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("PT109", "gpu-hidden", Severity.ERROR, needs=("CUDA_VISIBLE_DEVICES",))


@rule.module
def check(module: Module, project: Project) -> Hits:
    if (
        not module.imports("torch", "tensorflow", "keras", "jax")
        or is_test(module)
        or runs_without_gpu(module, project)
    ):
        return
    for node in module.nodes(ast.Assign):
        target = node.targets[0]
        if not isinstance(target, ast.Subscript) or module.qualified(target.value) != "os.environ":
            continue
        value = evaluate(module, node.value)
        hides = value.is_known and value.text is not None and value.text.strip() in ("", "-1")
        if evaluate(module, target.slice).text != "CUDA_VISIBLE_DEVICES" or not hides:
            continue
        # In a branch or function it is intended.
        if module.enclosing(node, ast.If, ast.Try, ast.FunctionDef, ast.With) is not None:
            continue
        job = largest_job(project, module)
        linked = job is not None and bool(gpus_per_host(project, job))
        where = (
            f": `{job.instance_type.text}` is billed but idle ({job.title})"
            if job is not None and linked
            else ""
        )
        yield rule.hit(
            module.span(node),
            f"CUDA_VISIBLE_DEVICES is {module.text(node.value)}: no GPU is visible{where}.",
            remedy="Delete the line.",
            severity=rule.severity if linked else lowered(rule.severity),
        )
