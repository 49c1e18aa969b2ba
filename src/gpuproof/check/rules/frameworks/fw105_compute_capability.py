"""The framework's build carries no kernels that run on this GPU: the first operation fails, or runs on the CPU.

PyTorch says "no kernel image is available for execution on the device"; TensorFlow compiles for minutes, or fails.
A binary runs on GPUs of the compute capability that it was built for, on later minor ones of the same major one, and
through PTX on later ones; CUDA 12 left Kepler behind and CUDA 13 left Maxwell, Pascal and Volta. What each build
carries and what AWS's images are built with are the catalogue's (`gpuproof gpus`); where it does not know, the rule says
nothing.

Bad: CUDA 13 and a V100

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.p3.2xlarge",  # <-
        image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-sagemaker",
    )

Bad: the wheel that requirements.txt puts in the image's place is built with CUDA 10.2

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

Quiet: the build carries PTX, which the driver compiles

    from sagemaker.tensorflow import TensorFlow

    TensorFlow(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g6.xlarge",
        framework_version="2.11", py_version="py39",
    )

Quiet: nobody knows what an image of one's own carries

    from sagemaker.estimator import Estimator

    Estimator(
        image_uri="123456789012.dkr.ecr.us-east-1.amazonaws.com/mine:cu130", role="role", instance_count=1,
        instance_type="ml.p3.2xlarge",
    )
"""

from gpuproof.catalogue.builds import version_key
from gpuproof.catalogue.model import Gpu
from gpuproof.check.jobs.definition import JobDefinition
from gpuproof.check.knowledge.images import host_cuda
from gpuproof.check.project import Project
from gpuproof.check.rule import Hits, Rule, lowered
from gpuproof.findings import Severity

rule = Rule("FW105", "compute-capability", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    instance = project.instance(job.instance_type)
    gpu = project.catalogue.gpu(instance.gpu_model) if instance is not None and instance.gpu_model else None
    if instance is None or gpu is None or gpu.compute_capability is None:
        return
    reason = _installed(job, gpu, project) or _in_image(job, gpu, project)
    if reason is None:
        return
    found = project.catalogue.replacements(instance.name, job.kind)
    newer = f" or another GPU, such as {found[0].instance.name}" if found else ""
    yield rule.hit(
        job.where(job.instance_type),
        f"`{instance.name}` has {gpu.name} ({'.'.join(map(str, gpu.compute_capability))}): {reason}",
        remedy=f"Take a build that carries this GPU{newer}.",
        severity=rule.severity if job.instance_type.is_known else lowered(rule.severity),
    )


def _installed(job: JobDefinition, gpu: Gpu, project: Project) -> str | None:
    """Why the wheel that the script's own requirements.txt installs does not run; the toolkit installs it at start."""
    if job.script is None or job.kind != "training":
        return None
    requirements = project.file(job.script.unit.absolute.parent / "requirements.txt")
    beside = (job.script.unit.absolute.parent / "requirements.txt").is_file()
    pin = project.pins(job.script.unit).get("torch", "") if beside or requirements is not None else ""
    if not pin.startswith("=="):
        return None
    support = project.catalogue.runs_on(f"torch{pin}", gpu)
    return f"requirements.txt installs torch{pin}. {support.reason}" if support.kind == "no" else None


def _in_image(job: JobDefinition, gpu: Gpu, project: Project) -> str | None:
    runs = host_cuda(job, project)
    framework, version, cuda = runs or ("", "", None)
    if cuda is None:
        return None
    if gpu.cuda_last is not None and version_key(cuda) > version_key(gpu.cuda_last):
        return f"the image of {framework} {version} has CUDA {cuda}, and CUDA {gpu.cuda_last} was the last for it."
    build = project.catalogue.build(f"{framework}=={version}+cu{cuda.replace('.', '')}")
    if build is None or build.cuda != cuda or build.evidence != "read":
        return None
    support = project.catalogue.runs_on(build, gpu)
    return support.reason if support.kind == "no" else None
