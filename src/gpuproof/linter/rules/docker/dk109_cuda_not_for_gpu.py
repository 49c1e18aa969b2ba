"""The CUDA version of the base image does not support the GPU of the instance that runs the image, or needs a newer driver.

CUDA 13 has no code for Volta and older (V100 of p3), and CUDA 11.3 none for Hopper (H100 of p5): PyTorch fails with "no kernel
image is available for execution on the device". CUDA in a container also needs a driver on the host: 525 or later for CUDA 12, 580 for
CUDA 13. With an older one, the container does not start: "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0".
Source: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/, https://docs.nvidia.com/deploy/cuda-compatibility/.

Bad: older than the GPU

    # file: launch.py
    from sagemaker.estimator import Estimator

    IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/climate:3"
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.p5.48xlarge").fit()
    # file: Dockerfile
    FROM pytorch/pytorch:1.12.1-cuda11.3-cudnn8-runtime  # <-
    COPY train.py /opt/program/train
    ENTRYPOINT ["python", "/opt/program/train"]
    # file: train.py
    print("trains")

Bad: newer than the GPU, on an instance that user data starts it on

    # file: main.tf
    resource "aws_instance" "trainer" {
      ami           = "ami-0123456789abcdef0"
      instance_type = "p3.2xlarge"
      user_data     = "#!/bin/bash\\ndocker run --gpus all --ipc host registry.example.com/train:2\\n"
    }
    # file: Dockerfile
    FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04  # <-
    CMD ["python3", "train.py"]

Good:

    # file: launch.py
    from sagemaker.estimator import Estimator

    IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/climate:3"
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.g5.xlarge").fit()
    # file: Dockerfile
    FROM pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime
    COPY train.py /opt/program/train
    ENTRYPOINT ["python", "/opt/program/train"]
    # file: train.py
    print("trains")

Quiet: which of two Dockerfiles runs there is not known

    # file: main.tf
    resource "aws_instance" "trainer" {
      ami           = "ami-0123456789abcdef0"
      instance_type = "p3.2xlarge"
      user_data     = "#!/bin/bash\\ndocker run --gpus all registry.example.com/train:2\\n"
    }
    # file: new/Dockerfile
    FROM nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04
    # file: old/Dockerfile
    FROM nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04
"""

from gpuproof.findings import Severity
from gpuproof.linter.knowledge.containers.hosts import ImageHost, image_hosts
from gpuproof.linter.knowledge.containers.public_images import PublicImage
from gpuproof.linter.knowledge.containers.recipes import read_recipe
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit
from gpuproof.util.versions import version_key

rule = Rule("DK109", "cuda-not-for-gpu", Severity.ERROR, kinds=("dockerfile",))


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    recipe = read_recipe(unit)
    if recipe is None or recipe.base is None or not recipe.base.cuda:
        return
    replaced = {package.framework for found, _ in recipe.installations() for package in found.packages}
    base = recipe.base
    for host in image_hosts(unit, project):
        reason = _reason(base, host, project, is_own=base.framework not in replaced)
        if reason is not None:
            yield rule.hit(
                recipe.base_span,
                f"`{base.name}` has CUDA {base.cuda}, but {host.title} runs it on `{host.instance.name}`: {reason}.",
                remedy="Choose a base image whose CUDA supports this GPU.",
            )
            return


def _reason(base: PublicImage, host: ImageHost, project: Project, *, is_own: bool) -> str | None:
    gpu = project.catalogue.gpu(host.instance.gpu_model or "")
    if gpu is None:
        return None
    if gpu.cuda_last is not None and version_key(base.cuda) > version_key(gpu.cuda_last):
        return f"CUDA {gpu.cuda_last} was the last to support {gpu.name}"
    # A base with CUDA alone says little about the framework that is installed in it. PyTorch's builds have binaries and no
    # PTX: those for 8.0 run on 8.6, and none run on the next generation.
    is_first = gpu.compute_capability is not None and gpu.compute_capability[1] == 0
    first = gpu.cuda_first if base.framework == "torch" and is_own and is_first else None
    if first is not None and version_key(base.cuda) < version_key(first):
        return f"{gpu.name} needs CUDA {first} or later"
    floor = project.catalogue.driver_floor(base.cuda)
    if floor is not None and host.driver is not None and not floor.allows(host.driver):
        return f"its AMI has NVIDIA driver {host.driver}, and CUDA {base.cuda} needs {floor.minimum}"
    return None
