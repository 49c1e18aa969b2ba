"""requirements.txt replaces the framework build of AWS's image with another one.

SageMaker installs the `requirements.txt` next to the script before it starts it. A pin of another `torch` or
`tensorflow` downloads several gigabytes at every start and replaces a build that was tested with the image's CUDA,
NCCL and EFA; `+cpu` and `tensorflow-cpu`, which overwrites the files of `tensorflow`, disable the GPU, and
`tensorflow-gpu` no longer installs (removed from PyPI in December 2022).

Bad:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", source_dir="src", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    )
    # file: src/train.py
    import torch
    # file: src/requirements.txt
    torch==2.1.0+cpu  # <-
    pandas

Bad: a job of GPUproof

    # file: gpuproof.yaml
    entry_point: train.py
    framework: pytorch
    framework_version: "2.6"
    instance_type: ml.g5.xlarge
    # file: train.py
    import torch
    # file: requirements.txt
    torch==2.4.1  # <-

Bad: a build for CPUs in a job with a GPU

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", source_dir="src", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.16", py_version="py310",
    )
    # file: src/train.py
    import tensorflow as tf
    # file: src/requirements.txt
    tensorflow-cpu  # <-

Bad: an image of Hugging Face

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", source_dir="src", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    )
    # file: src/train.py
    import torch
    # file: src/requirements.txt
    torch==2.3.1  # <-

Good:

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", source_dir="src", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    )
    # file: src/train.py
    import torch
    # file: src/requirements.txt
    pandas

Quiet: the same version is already installed

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", source_dir="src", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3.0", py_version="py311",
    )
    # file: src/train.py
    import torch
    # file: src/requirements.txt
    torch==2.3.0

Quiet: the version of an image of Hugging Face

    # file: launch.py
    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", source_dir="src", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        transformers_version="4.49.0", pytorch_version="2.5.1", py_version="py311",
    )
    # file: src/train.py
    import torch
    # file: src/requirements.txt
    torch==2.5.1

Quiet: the job has no GPU

    # file: launch.py
    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", source_dir="src", role="role", instance_count=1, instance_type="ml.m5.xlarge",
        framework_version="2.16", py_version="py310",
    )
    # file: src/train.py
    import tensorflow as tf
    # file: src/requirements.txt
    tensorflow-cpu

Quiet: the launcher's own environment

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", source_dir="src", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    )
    # file: src/train.py
    import torch
    # file: requirements.txt
    torch==2.1.0
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.jobs.requirement import Requirement
from gpuproof.linter.knowledge.aws.images import image_name, is_aws_container
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Edit, Fix
from gpuproof.linter.source.span import Span

rule = Rule("FW107", "reinstalls-framework", Severity.WARNING)

_PACKAGES = {
    "torch": "pytorch",
    "tensorflow": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "intel-tensorflow": "tensorflow",
}
_FOR_CPUS = ("tensorflow-cpu", "intel-tensorflow")
"""Packages that install the files of `tensorflow` without CUDA."""


@rule.requirement
def check(requirement: Requirement, project: Project) -> Hits:
    framework = _PACKAGES.get(requirement.name)
    unit = requirement.span.unit
    if framework is None or unit.absolute.name != "requirements.txt":
        return
    jobs = [
        job
        for job in project.jobs
        if job.script is not None
        and job.script.unit.absolute.parent == unit.absolute.parent
        and job.kind == "training"
        and (job.source == "gpuproof" or not job.source_dir.is_absent)
        and _is_aws(job, framework, project)
    ]
    pinned = requirement.pinned or ""
    if requirement.name in _FOR_CPUS:
        jobs = [job for job in jobs if gpus_per_host(project, job)]
    if (
        not jobs
        or not (pinned or requirement.name in ("tensorflow-gpu", *_FOR_CPUS))
        or _is_installed(jobs[0], requirement.name, framework, pinned)
    ):
        return
    if requirement.name == "tensorflow-gpu":
        what = "`tensorflow-gpu` can no longer be installed from PyPI, and the image already has TensorFlow with GPU support"
    elif requirement.name in _FOR_CPUS:
        what = f"`{requirement.name}` replaces TensorFlow by a build without CUDA: the GPU stays idle"
    elif pinned.endswith("+cpu"):
        what = f"`{requirement.name}=={pinned}` is a build without CUDA: the GPU stays idle"
    else:
        what = f"`{requirement.name}=={pinned}` replaces the build of the image"
    line = requirement.span.line
    start = Span(unit, line, 1, line, 1)
    yield rule.hit(
        requirement.span,
        f"{what} ({jobs[0].title}).",
        remedy="Remove the line; select the version with framework_version.",
        fix=Fix("Comment it out", (Edit(start, "# "),), safe=True),
    )


def _is_aws(job: JobDefinition, framework: str, project: Project) -> bool:
    if job.framework not in (framework, "huggingface"):
        return False
    if job.framework == "huggingface" and job.argument(f"{framework}_version").text is None:
        return False
    if job.image.is_unset:
        return True
    image = image_name(job.image)
    return image is not None and is_aws_container(image, project)


def _is_installed(job: JobDefinition, name: str, framework: str, pinned: str) -> bool:
    """Whether the image already has the pinned version, as far as the job specifies its version."""
    image = image_name(job.image)
    version = image.version if image is not None else job.framework_version.text
    if job.framework == "huggingface":
        version = job.argument(f"{framework}_version").text
    if name in ("tensorflow-gpu", *_FOR_CPUS) or pinned.endswith("+cpu"):
        return False
    return version is None or pinned.partition("+")[0].startswith(version)
