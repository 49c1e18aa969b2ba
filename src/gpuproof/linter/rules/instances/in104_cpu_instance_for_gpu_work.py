"""The image or the script requires a GPU, but the instance has none.

A script that calls `.cuda()` unconditionally fails at that line: "Torch not compiled with CUDA enabled" or "Found no
NVIDIA driver on your system". A `-gpu-` image on a CPU instance does run, but silently trains on a few cores and
takes many times as long. Scripts that check `torch.cuda.is_available()` are portable and not reported.

Bad: the image

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.t3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},  # <-
    )

Bad: the script

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge")  # <-
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
    )
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()

Bad: in a function that the script always calls

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge")  # <-
    # file: train.py
    import torch

    def main():
        model = torch.nn.Linear(8, 1)
        model.to("cuda")

    if __name__ == "__main__":
        main()

Quiet: the script uses whatever device exists

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge")
    # file: train.py
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = torch.nn.Linear(8, 1).to(device)

Quiet: only on request

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge")
    # file: train.py
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu", type=int, default=0)
    args = parser.parse_args()
    model = torch.nn.Linear(8, 1)
    if args.gpu:
        model = model.cuda()
"""

import ast
import re

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import all_calls, calls_named
from gpuproof.linter.analysis.local_imports import local_modules
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.analysis.usage import find_uses, uses
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.images import image_name, is_aws_container
from gpuproof.linter.knowledge.instances import find_instance, use_of
from gpuproof.linter.knowledge.ranks import always_runs
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("IN104", "cpu-instance-for-gpu-work", Severity.ERROR, when="link")

_CHECKS = re.compile(r"(^|\.)(is_available|device_count|(use|no)_(cuda|gpu)|num_gpus|get_device_capability)$")
_VARIABLES = re.compile(r"SM_NUM_GPUS|CUDA_VISIBLE_DEVICES")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    instance = find_instance(project, job.instance_type)
    if instance is None or instance.gpu_count or instance.accelerator != "none" or job.kind == "notebook":
        return
    image = image_name(job.image)
    if image is not None and image.device == "gpu" and is_aws_container(image, project):
        what = (
            f"`{instance.name}` has no GPU, but the image is built for one ({image.repository}:{image.tag})"
        )
    elif job.script is not None and (line := _needs_cuda(job.script)):
        what = f"`{instance.name}` has no GPU, but `{job.script_title}` requires one in line {line}"
    else:
        return
    found = project.catalogue.replacements(instance.name, use_of(job, instance))
    yield rule.hit(
        job.where(job.instance_type),
        f"{what}.",
        remedy=f"Use {found[0].instance.name}: {found[0].reason}" if found else None,
        severity=rule.severity if job.instance_type.is_known else lowered(rule.severity),
    )


def _needs_cuda(script: Module) -> int | None:
    """The line that always fails without a GPU; None if the script checks for one."""
    if not script.imports("torch") or any(_checks_for_gpu(module) for module in local_modules(script)):
        return None
    for call in calls_named(script, "cuda", "to", "device"):
        if call.method == "cuda":
            uses_cuda = not call.node.args and not call.keywords and call.receiver is not None
        else:
            is_device = call.name == "torch.device" or (call.method == "to" and call.receiver is not None)
            value = call.argument("device", 0)
            uses_cuda = is_device and value.is_known and (value.text or "").partition(":")[0] == "cuda"
            if call.method == "device":
                continue
        if uses_cuda and always_runs(script, call.node):
            return script.unit.file_position(call.node.lineno, 1)[1]
    return None


def _checks_for_gpu(module: Module) -> bool:
    """Whether a condition of the module depends on a GPU, or tests replace CUDA."""
    if module.imports("mock", "unittest.mock"):
        return True
    tests: list[ast.AST] = [node.test for node in module.nodes(ast.If, ast.IfExp, ast.While, ast.Assert)]
    tests += module.nodes(ast.BoolOp, ast.Compare, ast.UnaryOp)
    # `use_cuda = torch.cuda.is_available()` is tested by its name.
    tests += [node.value for node in module.nodes(ast.Assign, ast.Return) if node.value is not None]
    tests += [
        argument for call in all_calls(module) for argument in (*call.node.args, *call.keywords.values())
    ]
    quiet = [call.node for call in calls_named(module, "print", "info", "debug", "warning")]
    checked = [
        use
        for use in find_uses(module, "call", "name", "attribute", within=tests)
        if _CHECKS.search(use.text)
    ]
    return uses(module, _VARIABLES, "string") or any(
        not any(module.tree.is_within(use.node, each) for each in quiet) for use in checked
    )
