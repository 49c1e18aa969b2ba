"""The Dockerfile installs a framework without CUDA in an image for GPUs, which then computes on the CPU.

`--index-url https://download.pytorch.org/whl/cpu`, `torch==2.4.0+cpu`, `tensorflow-cpu` and conda's `cpuonly` have no
CUDA code, whatever the base image, the driver or `--gpus` are: `torch.cuda.is_available()` is False. The same holds for this index as `--extra-index-url`, because `2.4.0+cpu` is a higher version than `2.4.0`. The image is for GPUs if its base has CUDA, if a job with a GPU runs it, or if its script fails without one.
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

Bad: a package whose GPU variant has another name

    # file: Dockerfile
    FROM nvidia/cuda:12.5.1-cudnn-runtime-ubuntu22.04
    RUN apt-get update && apt-get install -y python3-pip
    RUN pip install jax==0.4.35 flax optax  # <-

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

Quiet: the GPU variants, and a CPU provider that is meant

    # file: Dockerfile
    FROM nvidia/cuda:12.5.1-cudnn-runtime-ubuntu22.04
    RUN pip install "jax[cuda12]==0.4.35" flax onnxruntime
    COPY serve.py .
    CMD ["python", "serve.py"]
    # file: serve.py
    import onnxruntime

    session = onnxruntime.InferenceSession("tokens.onnx", providers=["CPUExecutionProvider"])

Quiet: a stage that only converts

    # file: Dockerfile
    FROM python:3.11-slim AS convert
    RUN pip install torch==2.4.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu
    RUN python convert.py
    FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04
    COPY --from=convert /model.onnx /model.onnx
    RUN pip install onnxruntime-gpu
"""

from collections.abc import Iterator

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.unit_commands import span_of
from gpuproof.linter.knowledge.containers.cpu_packages import cpu_package
from gpuproof.linter.knowledge.containers.installs import Installation
from gpuproof.linter.knowledge.containers.recipes import gpu_evidence, read_recipe, users
from gpuproof.linter.knowledge.containers.requirements_files import cpu_index_of, requirements_read
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Span, Unit

rule = Rule("DK102", "cpu-build-in-gpu-image", Severity.ERROR, kinds=("dockerfile",))

_REMEDY = "Install the build for GPUs: torch from PyPI or https://download.pytorch.org/whl/cu124, or tensorflow[and-cuda]."
_HINTS = ("cpu", "requirements", "-r ", "jax", "onnxruntime", "paddlepaddle")


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if not any(word in unit.source for word in _HINTS):
        return
    recipe = read_recipe(unit)
    if recipe is None:
        return
    installations = [found for found, _ in recipe.installations()]
    reasons = [
        (*reason, _REMEDY)
        for found in installations
        if (reason := _in_command(unit, found) or _in_files(unit, found, project)) is not None
    ]
    reasons += _without_gpu_code(unit, installations, project)
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
    for span, what, remedy in reasons:
        yield rule.hit(
            span,
            f"{what}, but {why}: the GPU stays idle.",
            remedy=remedy,
        )


def _without_gpu_code(
    unit: Unit, installations: list[Installation], project: Project
) -> Iterator[tuple[Span, str, str]]:
    """Packages such as `jax` and `onnxruntime`, whose GPU variants have other names."""
    packages = [
        (package.name, package.extras, span_of(unit, package.place, package.word))
        for found in installations
        for package in found.packages
    ]
    for found in installations:
        for name in found.files:
            for requirement in requirements_read(unit, name, project.workspace):
                extras = requirement.text.partition("[")[2].partition("]")[0]
                packages.append((requirement.name, extras, requirement.span))
    scripts = [job.script for job in users(unit, project) if job.script is not None]
    names = frozenset(name for name, _, _ in packages)
    local_versions = {
        package.name for found in installations for package in found.packages if "+cuda" in package.word
    }
    for name, extras, span in packages:
        if name == "jax" and "jaxlib" in local_versions:
            continue  # before jax[cuda12], the build of jaxlib decided
        row = cpu_package(name, extras, names, scripts)
        if row is not None:
            yield span, f"`{name}` has no code for GPUs", f"Install {row.instead}."


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
