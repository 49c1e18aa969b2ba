"""`docker run`, a service of Docker Compose or a container of Batch or ECS gets no GPU, but what it runs needs one.

A container sees no GPU unless it asks: with `--gpus`, `--runtime=nvidia` or a CDI device, in Compose with `gpus: all` or a
reservation under `deploy.resources.reservations.devices`. A script that requires a GPU fails, and one that runs
with or without one silently trains on the CPU. Only a machine whose default runtime is NVIDIA's gives GPUs to every container.
Batch and ECS give a container the GPUs that its resource requirements name, also on hosts that have some.
Sources: https://docs.docker.com/engine/containers/resource_constraints/#gpu, https://docs.docker.com/compose/how-tos/gpu-support/.

Bad:

    # file: run.sh
    #!/bin/bash
    docker run --rm -v "$PWD":/workspace -w /workspace \\  # <-
        pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime \\
        python train.py --epochs 10

Good:

    # file: run.sh
    #!/bin/bash
    docker run --rm --gpus all --ipc=host -v "$PWD":/workspace -w /workspace \\
        pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime \\
        python train.py --epochs 10

Bad: a service whose image has a script that requires a GPU

    # file: compose.yaml
    services:
      trainer:  # <-
        build: .
        volumes:
          - ./data:/data
    # file: Dockerfile
    FROM python:3.11-slim
    RUN pip install torch==2.4.0
    WORKDIR /app
    COPY train.py .
    CMD ["python", "train.py"]
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    print(model)

Good: a reservation

    # file: compose.yaml
    services:
      server:
        image: vllm/vllm-openai:v0.6.3
        command: --model facebook/opt-125m
        ipc: host
        deploy:
          resources:
            reservations:
              devices:
                - driver: nvidia
                  count: 1
                  capabilities: [gpu]

Bad: a job definition of Batch

    # file: batch.tf
    resource "aws_batch_job_definition" "train" {
      name = "train"
      type = "container"
      container_properties = jsonencode({
        image   = "pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime"
        command = ["python", "train.py"]  # <-
        resourceRequirements = [
          { type = "VCPU", value = "8" },
          { type = "MEMORY", value = "30000" },
        ]
      })
    }
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    print(model)

Good: with a GPU

    # file: batch.tf
    resource "aws_batch_job_definition" "train" {
      name = "train"
      type = "container"
      container_properties = jsonencode({
        image   = "pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime"
        command = ["python", "train.py"]
        resourceRequirements = [
          { type = "VCPU", value = "8" },
          { type = "MEMORY", value = "30000" },
          { type = "GPU", value = "1" },
        ]
      })
    }
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    print(model)

Quiet: a job for the CPU, and one whose requirements are a variable

    # file: batch.tf
    resource "aws_batch_job_definition" "prepare" {
      name = "prepare"
      type = "container"
      container_properties = jsonencode({
        image   = "python:3.11"
        command = ["python", "prepare.py"]
        resourceRequirements = [{ type = "VCPU", value = "8" }, { type = "MEMORY", value = "30000" }]
      })
    }
    resource "aws_batch_job_definition" "train" {
      name = "train"
      type = "container"
      container_properties = jsonencode({
        image                = "pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime"
        command              = ["python", "train.py"]
        resourceRequirements = local.requirements
      })
    }
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
    print(model)
    # file: prepare.py
    print("done")

Quiet: a build, a look at a version, and another runtime

    # file: Makefile
    build: ; docker run --rm nvidia/cuda:12.4.1-devel-ubuntu22.04 nvcc --version
    version: ; docker run --rm pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python -c "import torch; print(torch.__version__)"
    train: ; docker run --runtime=nvidia pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python -m train
    serve: ; docker run --rm -p 8501:8501 tensorflow/serving

Quiet: a script that moves nothing to a GPU

    # file: run.sh
    docker run --rm -v "$PWD":/work pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime python /work/tokenize_texts.py
    # file: tokenize_texts.py
    import json

    print(json.dumps({}))
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.containers.public_images import PublicImage, public_image
from gpuproof.linter.knowledge.containers.recipes import read_recipe
from gpuproof.linter.knowledge.devices.device_use import may_use_device
from gpuproof.linter.knowledge.distribution.required_gpu import line_that_needs_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("DK101", "container-without-gpus", Severity.WARNING)

_TRAINS = re.compile(
    r"(.*/)?(python[\d.]*|torchrun|accelerate|deepspeed|mpirun|horovodrun|nvidia-smi|vllm|jupyter(-lab)?)"
)
_REMEDIES = {
    "docker": "Add --gpus all before the image.",
    "compose": "Add `gpus: all`, or reserve a device.",
    "container": "Reserve one: a resource requirement of type GPU; gpu_count, gpuCount or gpu in the CDK.",
}
_LOOKS = frozenset(
    {"-c", "-V", "--version", "pip", "pytest", "setup.py", "build", "unittest", "venv", "compileall"}
)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.source not in ("docker", "compose", "container"):
        return
    if not (job.gpu_count.is_known and job.gpu_count.value == 0):
        return
    # A host whose default runtime is NVIDIA's gives a container what this variable names.
    if "NVIDIA_VISIBLE_DEVICES" in job.environment.parts:
        return
    if job.environment.at("CUDA_VISIBLE_DEVICES").text in ("", "-1"):
        return
    line = line_that_needs_gpu(job.script) if job.script is not None else None
    if line:
        what = f"`{job.script_title}` requires one in line {line}"
    else:
        image = _image(job)
        if image is None or image.device != "gpu" or not _uses_gpu(job, image):
            return
        what = f"`{image.name}` is an image for GPUs"
        if job.script is not None:
            what += f", in which `{job.script_title}` then runs on the CPU"
    title = job.api.partition(" ")[2] or job.api
    names = {"docker": "The container", "compose": f"The service `{title}`"}
    yield rule.hit(
        job.span,
        f"{names.get(job.source, f'The container `{title}`')} gets no GPU, but {what}.",
        remedy=_REMEDIES[job.source],
    )


def _image(job: JobDefinition) -> PublicImage | None:
    """The public image that a container runs, or that its Dockerfile builds on."""
    if job.recipe is not None:
        recipe = read_recipe(job.recipe)
        return recipe.base if recipe is not None else None
    return public_image(job.image.text) if job.image.text is not None else None


def _uses_gpu(job: JobDefinition, image: PublicImage) -> bool:
    """Whether what a container runs would use a GPU."""
    if job.script is not None:
        return may_use_device(job.script)
    words = [str(word.value) for word in job.command.items or ()]
    if not words:
        # The program of the image: a server of models, or an interactive shell.
        return job.command.is_absent and not image.is_toolkit and job.recipe is None
    if words[0].startswith("-"):
        return not image.is_toolkit  # arguments of the image's own program
    if _TRAINS.fullmatch(words[0]) is None:
        return False
    return words[0].rpartition("/")[2] == "nvidia-smi" or (
        not image.is_toolkit and not _LOOKS & set(words[1:4])
    )
