"""The framework build has no kernels for this GPU: the first operation fails, or runs on the CPU.

PyTorch reports "no kernel image is available for execution on the device"; TensorFlow compiles for minutes, or fails.
A binary runs on GPUs of the compute capability that it was built for and on later minor versions of the same major
one; PTX also runs on later GPUs. CUDA 12 dropped Kepler, and CUDA 13 dropped Maxwell, Pascal and Volta. The catalogue
(`gpuproof gpus`) lists what each build and AWS's images contain; the rule does not report builds missing from it.

Bad: CUDA 13 and a V100

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.p3.2xlarge",  # <-
        image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-sagemaker",
    )

Bad: the PyTorch below transformers

    from sagemaker.huggingface import HuggingFace

    HuggingFace(
        entry_point="train.py", instance_type="ml.p5.48xlarge", instance_count=1,  # <-
        transformers_version="4.26", pytorch_version="1.13", py_version="py39",
    )

Bad: requirements.txt installs a wheel that is built with CUDA 10.2

    # file: launch.py
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", source_dir=".", role="role", instance_count=1, instance_type="ml.g5.xlarge",  # <-
        framework_version="1.13", py_version="py39",
    )
    # file: train.py
    import torch
    # file: requirements.txt
    torch==1.12.1

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    )

Quiet: the build contains PTX, which the driver compiles

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g6.xlarge",
        framework_version="2.11", py_version="py39",
    )

Quiet: the content of a custom image is unknown

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:cu130", role="role", instance_count=1,
        instance_type="ml.p3.2xlarge",
    )
"""

from gpuproof.catalogue.model import Gpu
from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import framework_and_cuda
from gpuproof.linter.knowledge.aws.instances import find_instance, use_of
from gpuproof.linter.knowledge.version_pins import pinned_versions
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.util.versions import version_key

rule = Rule("FW105", "compute-capability", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    instance = find_instance(project, job.instance_type)
    gpu = project.catalogue.gpu(instance.gpu_model) if instance is not None and instance.gpu_model else None
    if instance is None or gpu is None or gpu.compute_capability is None:
        return
    reason = _installed(job, gpu, project) or _in_image(job, gpu, project)
    if reason is None:
        return
    found = project.catalogue.replacements(instance.name, use_of(job, instance))
    newer = f" or another GPU, such as {found[0].instance.name}" if found else ""
    yield rule.hit(
        job.where(job.instance_type),
        f"`{instance.name}` has {gpu.name} ({'.'.join(map(str, gpu.compute_capability))}): {reason}",
        remedy=f"Use a build that supports this GPU{newer}.",
        severity=rule.severity if job.instance_type.is_known else lowered(rule.severity),
    )


def _installed(job: JobDefinition, gpu: Gpu, project: Project) -> str | None:
    """Why the wheel in the script's requirements.txt, which the toolkit installs at startup, does not run."""
    if job.script is None or job.kind != "training":
        return None
    requirements = project.workspace.file(job.script.unit.absolute.parent / "requirements.txt")
    exists = (job.script.unit.absolute.parent / "requirements.txt").is_file()
    pin = pinned_versions(job.script.unit).get("torch", "") if exists or requirements is not None else ""
    if not pin.startswith("=="):
        return None
    support = project.catalogue.runs_on(f"torch{pin}", gpu)
    return f"requirements.txt installs torch{pin}. {support.reason}" if support.kind == "no" else None


def _in_image(job: JobDefinition, gpu: Gpu, project: Project) -> str | None:
    runs = framework_and_cuda(job, project)
    framework, version, cuda = runs or ("", "", None)
    if cuda is None:
        return None
    if gpu.cuda_last is not None and version_key(cuda) > version_key(gpu.cuda_last):
        return f"the image of {framework} {version} has CUDA {cuda}, but CUDA {gpu.cuda_last} was the last to support it."
    build = project.catalogue.build(f"{framework}=={version}+cu{cuda.replace('.', '')}")
    if build is None or build.cuda != cuda or build.evidence != "read":
        return None
    support = project.catalogue.runs_on(build, gpu)
    return support.reason if support.kind == "no" else None
