"""The job, its image or its script requires a GPU, but the instance has none.

A script that calls `.cuda()` unconditionally fails at that line: "Torch not compiled with CUDA enabled" or "Found no
NVIDIA driver on your system". So does `.to(torch.device("cuda"))`, `torch.cuda.set_device(0)`, `device_map="cuda"`,
Lightning's `accelerator="gpu"`, the Trainer's `fp16=True` and NCCL. A `-gpu-` image on a CPU instance does run, but
silently trains on a few cores and takes many times as long. Scripts that choose the device by
`torch.cuda.is_available()` are portable and not reported, unless the job says `require_gpu: true` or requests a GPU in
`resources`: no instance type gets a GPU by a setting.

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

Bad: the job

    # file: gpuproof.yaml
    entry_point: train.py
    framework: tensorflow
    instance_type: ml.t3.2xlarge  # <-
    require_gpu: true
    # file: train.py
    import tensorflow as tf

    print(tf.config.list_physical_devices("GPU"))

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

Bad: a function of another file returns the device

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge")  # <-
    # file: common.py
    import torch

    def get_device():
        return torch.device("cuda:0")
    # file: train.py
    import torch
    from common import get_device

    device = get_device()
    model = torch.nn.Linear(8, 1).to(device)

Quiet: the function returns what exists

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge")
    # file: train.py
    import torch

    def get_device():
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("cpu")

    model = torch.nn.Linear(8, 1).to(get_device())

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

Bad: Lightning

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge")  # <-
    # file: train.py
    import lightning as L

    trainer = L.Trainer(accelerator="gpu", devices=1)

Quiet: the script chooses what exists

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="role", instance_count=1, instance_type="ml.m5.xlarge")
    # file: train.py
    import lightning as L
    import torch

    trainer = L.Trainer(accelerator="gpu" if torch.cuda.is_available() else "cpu")
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import ABSENT
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name, is_aws_container
from gpuproof.linter.knowledge.aws.instances import find_instance, use_of
from gpuproof.linter.knowledge.distribution.required_gpu import line_that_needs_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("IN104", "cpu-instance-for-gpu-work", Severity.ERROR, when="link")


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
    elif job.script is not None and (line := line_that_needs_gpu(job.script)):
        what = f"`{instance.name}` has no GPU, but `{job.script_title}` requires one in line {line}"
    elif demand := _demand(job):
        what = f"`{instance.name}` has no GPU, but the job requires one (`{demand}`)"
    else:
        return
    found = project.catalogue.replacements(instance.name, use_of(job, instance))
    yield rule.hit(
        job.where(job.instance_type),
        f"{what}.",
        remedy=f"Use {found[0].instance.name}: {found[0].reason}" if found else None,
        severity=rule.severity if job.instance_type.is_known else lowered(rule.severity),
    )


def _demand(job: JobDefinition) -> str | None:
    """The setting by which a job of GPUproof requires a GPU."""
    if job.source != "gpuproof":
        return None
    if job.arguments.get("require_gpu", ABSENT).flag:
        return "require_gpu: true"
    gpu = job.arguments.get("resources", ABSENT).at("gpu")
    return None if gpu.is_absent or gpu.is_unset else "resources.gpu"
