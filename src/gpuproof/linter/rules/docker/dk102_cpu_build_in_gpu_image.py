"""The Dockerfile installs a framework without CUDA in an image for GPUs, which then computes on the CPU.

`--index-url https://download.pytorch.org/whl/cpu`, `torch==2.4.0+cpu`, `tensorflow-cpu` and conda's `cpuonly` have no
CUDA code, whatever the base image, the driver or `--gpus` are: `torch.cuda.is_available()` is False. So does the index as
`--extra-index-url`, because `2.4.0+cpu` is a higher version than `2.4.0`. The image is for GPUs if its base has CUDA, if a job with a GPU runs it, or if its script fails without one.
Source: https://pytorch.org/get-started/locally/.

Bad: CUDA in the base image

    # file: Dockerfile
    FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04
    RUN apt-get update && apt-get install -y python3-pip
    RUN pip install --no-cache-dir torch torchvision \\  # <-
        --index-url https://download.pytorch.org/whl/cpu
    COPY train.py .
    # file: train.py
    import torch

    print(torch.zeros(1))

Bad: a service with a GPU runs it

    # file: Dockerfile
    FROM python:3.11-slim
    COPY requirements.txt train.py ./
    RUN pip install -r requirements.txt
    CMD ["python", "train.py"]
    # file: requirements.txt
    --index-url https://download.pytorch.org/whl/cpu
    torch==2.4.0  # <-
    # file: train.py
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(torch.zeros(1, device=device))
    # file: compose.yaml
    services:
      train:
        build: .
        gpus: all

Good:

    # file: Dockerfile
    FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04
    RUN apt-get update && apt-get install -y python3-pip
    RUN pip install --no-cache-dir torch torchvision --index-url https://download.pytorch.org/whl/cu124
    COPY train.py .
    # file: train.py
    import torch

    print(torch.zeros(1))

Quiet: an image for CPUs

    # file: Dockerfile
    FROM python:3.11-slim
    RUN pip install torch --index-url https://download.pytorch.org/whl/cpu
    COPY serve.py .
    CMD ["python", "serve.py"]
    # file: serve.py
    import torch

    print(torch.zeros(1))

Quiet: a stage that only converts

    # file: Dockerfile
    FROM python:3.11-slim AS convert
    RUN pip install torch==2.4.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu
    RUN python convert.py
    FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
    COPY --from=convert /model.onnx /model.onnx
    RUN pip install onnxruntime-gpu
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.unit_commands import span_of
from gpuproof.linter.knowledge.containers.installs import Installation
from gpuproof.linter.knowledge.containers.recipes import gpu_evidence, read_recipe
from gpuproof.linter.knowledge.containers.requirements_files import cpu_index_of, requirements_read
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span, Unit

rule = Rule("DK102", "cpu-build-in-gpu-image", Severity.ERROR)

_HINTS = ("cpu", "requirements", "-r ")


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if unit.kind != "dockerfile" or not any(word in unit.source for word in _HINTS):
        return
    recipe = read_recipe(unit)
    if recipe is None:
        return
    reasons = [
        reason
        for installation, _ in recipe.installations()
        if (reason := _in_command(unit, installation) or _in_files(unit, installation, project)) is not None
    ]
    if not reasons:
        return
    has_cuda = recipe.base is not None and recipe.base.device == "gpu"
    why = (
        f"the base image `{recipe.base.name}` has CUDA"
        if has_cuda and recipe.base
        else gpu_evidence(unit, project)
    )
    if why is None:
        return
    for span, what in reasons:
        yield rule.hit(
            span,
            f"{what}, but {why}: the GPU stays idle.",
            remedy="Install the build for GPUs: for torch from PyPI or https://download.pytorch.org/whl/cu124.",
        )


def _in_command(unit: Unit, installation: Installation) -> tuple[Span, str] | None:
    for package in installation.packages:
        if package.cpu_reason is not None:
            return span_of(unit, package.place, package.word), package.cpu_reason
    return None


def _in_files(unit: Unit, installation: Installation, project: Project) -> tuple[Span, str] | None:
    """A build for CPUs in the requirements files that a command reads."""
    for name in installation.files:
        for requirement in requirements_read(unit, name, project.workspace):
            index = cpu_index_of(requirement.span.unit) or installation.cpu_index
            if requirement.name == "tensorflow-cpu" or "+cpu" in requirement.constraint:
                return (
                    requirement.span,
                    f"`{requirement.name}{requirement.constraint}` is a build without CUDA",
                )
            if requirement.name == "torch" and index and "+" not in requirement.constraint:
                return requirement.span, f"`torch` comes from `{index}`, which has only builds without CUDA"
    return None
