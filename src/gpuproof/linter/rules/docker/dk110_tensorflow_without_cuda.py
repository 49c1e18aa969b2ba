"""The image installs TensorFlow without the CUDA libraries that it was built for: it computes on the CPU.

TensorFlow's wheels have no CUDA in them. Since 2.14 the extra `tensorflow[and-cuda]` installs it; otherwise the libraries of
the base image count, and their major version must be that of the build: TensorFlow 2.10 looks for `libcudart.so.11.0`, and
in an image with CUDA 12 it warns "Could not load dynamic library" and skips the GPU. The bases `base` and those without
`cudnn` in the tag lack cuDNN. Source: https://www.tensorflow.org/install/pip, https://www.tensorflow.org/install/source#gpu.

Bad: no CUDA, in a container with a GPU

    # file: Dockerfile
    FROM python:3.11-slim
    RUN pip install --no-cache-dir tensorflow==2.16.1  # <-
    COPY train.py .
    CMD ["python", "train.py"]
    # file: train.py
    import tensorflow as tf

    print(tf.reduce_sum(tf.zeros([8])))
    # file: run.sh
    #!/bin/bash
    docker build -t trainer .
    docker run --rm --gpus all trainer

Bad: another CUDA

    # file: Dockerfile
    FROM nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04
    RUN apt-get update && apt-get install -y python3-pip
    RUN pip3 install tensorflow==2.10.1  # <-

Good:

    # file: Dockerfile
    FROM python:3.11-slim
    RUN pip install --no-cache-dir "tensorflow[and-cuda]==2.16.1"
    COPY train.py .
    CMD ["python", "train.py"]
    # file: train.py
    import tensorflow as tf

    print(tf.reduce_sum(tf.zeros([8])))
    # file: run.sh
    #!/bin/bash
    docker build -t trainer .
    docker run --rm --gpus all trainer

Quiet: an image for CPUs, and the CUDA of the build

    # file: cpu/Dockerfile
    FROM python:3.11-slim
    RUN pip install --no-cache-dir tensorflow==2.16.1
    # file: gpu/Dockerfile
    FROM nvidia/cuda:11.2.2-cudnn8-runtime-ubuntu20.04
    RUN apt-get update && apt-get install -y python3-pip
    RUN pip3 install tensorflow==2.10.1
"""

import re

from gpuproof.findings import Severity
from gpuproof.linter.jobs.commands.unit_commands import span_of
from gpuproof.linter.knowledge.containers.installs import Install
from gpuproof.linter.knowledge.containers.recipes import Recipe, gpu_evidence, read_recipe
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("DK110", "tensorflow-without-cuda", Severity.ERROR, kinds=("dockerfile",))

_PLAIN = re.compile(
    r"(python|ubuntu|debian|amazonlinux|public\.ecr\.aws/docker/library/(python|ubuntu|debian)):?[\w.-]*"
)
"""Bases that certainly have no CUDA."""
_BRINGS_CUDA = re.compile(r"nvidia|cuda|cudnn|libcud", re.IGNORECASE)


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    if "tensorflow" not in unit.source:
        return
    recipe = read_recipe(unit)
    package = _tensorflow(recipe) if recipe is not None else None
    if recipe is None or package is None or "and-cuda" in package.extras or package.cpu_reason is not None:
        return
    reason = _reason(recipe, package, project)
    if reason is not None:
        yield rule.hit(
            span_of(unit, package.place, package.word),
            f"`{package.word}` {reason}: TensorFlow computes on the CPU.",
            remedy='Install "tensorflow[and-cuda]", or build on tensorflow/tensorflow with -gpu in its tag.',
        )


def _tensorflow(recipe: Recipe) -> Install | None:
    """The only installation of TensorFlow by pip."""
    found = [
        package
        for installation, _ in recipe.installations()
        for package in installation.packages
        if package.name == "tensorflow" and package.tool == "pip" and not installation.command.is_conditional
    ]
    return found[0] if len(found) == 1 else None


def _reason(recipe: Recipe, package: Install, project: Project) -> str | None:
    base = recipe.base
    if base is not None and base.is_toolkit and base.cuda and package.pinned:
        build = project.catalogue.build(f"tensorflow=={package.pinned}")
        wanted = build.cuda if build is not None else None
        if wanted and wanted.partition(".")[0] != base.cuda.partition(".")[0] and not _installs_cuda(recipe):
            return f"needs CUDA {wanted}, and `{base.name}` has {base.cuda}"
        return None
    if base is not None or not _PLAIN.fullmatch(recipe.stage.base.image) or _installs_cuda(recipe):
        return None
    why = gpu_evidence(recipe.unit, project)
    return f"brings no CUDA, and `{recipe.stage.base.image}` has none, but {why}" if why is not None else None


def _installs_cuda(recipe: Recipe) -> bool:
    """Whether an instruction may install CUDA's libraries."""
    return any(
        instruction.name in ("RUN", "COPY", "ADD") and _BRINGS_CUDA.search(instruction.value)
        for instruction in recipe.stage.all_instructions()
    )
