"""A variable hides every GPU from the program of a job that has or requires one.

`CUDA_VISIBLE_DEVICES=""` or `-1` in a shell script, an ENV of the Dockerfile, a service or a pod leaves CUDA no device:
`torch.cuda.is_available()` is False, and the job trains on the CPU while its GPU is reserved. `NVIDIA_VISIBLE_DEVICES=none` or
`void` does it before the container starts, and takes precedence over what a device plugin sets. In a Python script it is
[PT109](PT109.md), and a list that leaves out some GPUs of an instance is [DS124](DS124.md).
Source: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html.

Bad: a Slurm job

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    export CUDA_VISIBLE_DEVICES=""
    python train.py  # <-
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(8, 1).to(device)

Bad: an image for GPUs

    # file: Dockerfile
    FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
    ENV CUDA_VISIBLE_DEVICES=-1  # <-
    COPY serve.py .
    CMD ["python", "serve.py"]
    # file: serve.py
    import torch

    print(torch.zeros(1))

Bad: a pod

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: serve
    spec:
      containers:
        - name: serve
          image: registry.example.com/serve:1.4
          env:
            - name: NVIDIA_VISIBLE_DEVICES
              value: none  # <-
          resources:
            limits:
              nvidia.com/gpu: 1

Good:

    # file: train.sbatch
    #!/bin/bash
    #SBATCH --gres=gpu:1
    python train.py
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(8, 1).to(device)

Quiet: tests on the CPU, and a job without a GPU

    # file: Makefile
    test: ; CUDA_VISIBLE_DEVICES="" pytest tests
    smoke: ; CUDA_VISIBLE_DEVICES= python train.py --steps 1
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Linear(8, 1).to(device)
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.commands.dockerfile import settings
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import find_instance, gpus_per_host
from gpuproof.linter.knowledge.containers.recipes import gpu_evidence, read_recipe
from gpuproof.linter.knowledge.distribution.required_gpu import line_that_needs_gpu
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("SH102", "gpus-hidden-by-variable", Severity.ERROR, kinds=("dockerfile",))

_HIDING = {
    "CUDA_VISIBLE_DEVICES": ("", "-1", "none", "None", "NoDevFiles"),
    "NVIDIA_VISIBLE_DEVICES": ("none", "void"),
}


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if find_instance(project, job.instance_type) is not None or job.kind != "training":
        return  # DS124
    for name, values in _HIDING.items():
        given = job.environment.at(name)
        by_command = False
        if given.value is None and job.start is not None and not job.start.is_conditional:
            written = job.start.environment.get(name)
            given = Value("known", (written,)) if written is not None else given
            by_command = written is not None
        if not given.is_known or str(given.value).strip() not in values:
            continue
        why = _evidence(job, project)
        if why is None:
            continue
        span = given.span or job.span
        if by_command and job.start is not None and job.source in ("command", "slurm"):
            span = job.span.unit.span(job.start.line)
        yield rule.hit(
            span,
            f'{name} is "{given.value}": no GPU is visible to {job.script_title if job.script else "the program"}, but {why}.',
            remedy=f"Remove {name}.",
        )


@rule.unit
def check_image(unit: Unit, project: Project) -> Hits:
    """ENV of a Dockerfile."""
    if "_VISIBLE_DEVICES" not in unit.source:
        return
    recipe = read_recipe(unit)
    if recipe is None:
        return
    for name, instruction in recipe.stage.environment().items():
        value = settings(instruction.value).get(name, "")
        if value not in _HIDING.get(name, ()):
            continue
        has_cuda = recipe.base is not None and recipe.base.device == "gpu"
        why = "its base image has CUDA" if has_cuda else gpu_evidence(unit, project)
        if why is not None:
            yield rule.hit(
                unit.span(instruction.line),
                f'The image sets {name} to "{value}": no GPU is visible in its containers, but {why}.',
                remedy=f"Remove {name}.",
            )


def _evidence(job: JobDefinition, project: Project) -> str | None:
    gpus = gpus_per_host(project, job)
    # Another program of the job may use its GPUs.
    if gpus and not job.runs_others:
        return f"the job reserves {'a GPU' if gpus == 1 else f'{gpus} GPUs'}"
    if job.script is not None and (line := line_that_needs_gpu(job.script)):
        return f"`{job.script_title}` requires a GPU in line {line}"
    return None
