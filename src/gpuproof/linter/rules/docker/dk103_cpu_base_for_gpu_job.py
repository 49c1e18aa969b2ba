"""The base image has a framework without CUDA, and the image runs on a GPU or a script in it requires one.

`tensorflow/tensorflow:2.15.0` (without `-gpu`), `pytorch/torchserve:latest-cpu`, `jupyter/pytorch-notebook` and the `-cpu-`
images of AWS have no CUDA libraries: TensorFlow and PyTorch see no GPU in them, whatever the machine has. A base without
any framework, such as `python:3.11-slim`, is right: torch's wheels bring CUDA with them.
Sources: https://www.tensorflow.org/install/docker, https://pytorch.org/get-started/locally/.

Bad: a service with a GPU

    # file: compose.yaml
    services:
      train:
        build: .
        gpus: all
    # file: Dockerfile
    FROM tensorflow/tensorflow:2.15.0  # <-
    COPY train.py .
    CMD ["python", "train.py"]
    # file: train.py
    import tensorflow as tf

    print(tf.reduce_sum(tf.zeros([8])))

Bad: a script that requires a GPU

    # file: Dockerfile
    ARG REGISTRY=quay.io/jupyter
    FROM ${REGISTRY}/pytorch-notebook:latest  # <-
    COPY train.py .
    CMD ["python", "train.py"]
    # file: train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()

Bad: a pod

    # file: pod.yaml
    apiVersion: v1
    kind: Pod
    metadata:
      name: serve
    spec:
      containers:
        - name: serve
          image: tensorflow/serving:2.16.1  # <-
          resources:
            limits:
              nvidia.com/gpu: 1

Good:

    # file: compose.yaml
    services:
      train:
        build: .
        gpus: all
    # file: Dockerfile
    FROM tensorflow/tensorflow:2.15.0-gpu
    COPY train.py .
    CMD ["python", "train.py"]
    # file: train.py
    import tensorflow as tf

    print(tf.reduce_sum(tf.zeros([8])))

Quiet: no job with a GPU, a base without a framework, and one whose torch is replaced

    # file: cpu/Dockerfile
    FROM tensorflow/tensorflow:2.15.0
    CMD ["python", "train.py"]
    # file: cpu/train.py
    import tensorflow as tf

    print(tf.reduce_sum(tf.zeros([8])))
    # file: gpu/Dockerfile
    FROM python:3.11-slim
    RUN pip install torch
    COPY train.py .
    CMD ["python", "train.py"]
    # file: gpu/train.py
    import torch

    model = torch.nn.Linear(8, 1).cuda()
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import CONTAINERS, JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.knowledge.containers.public_images import public_image
from gpuproof.linter.knowledge.containers.recipes import gpu_evidence, read_recipe
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.span import Unit

rule = Rule("DK103", "cpu-base-for-gpu-job", Severity.ERROR, kinds=("dockerfile",))


@rule.unit
def check(unit: Unit, project: Project) -> Hits:
    recipe = read_recipe(unit)
    if recipe is None or recipe.base is None or recipe.base.device != "cpu" or not recipe.base.framework:
        return
    own = {package.framework for found, _ in recipe.installations() for package in found.packages}
    if recipe.base.framework in own:
        return  # another build is installed over it
    why = gpu_evidence(unit, project)
    if why is not None:
        yield rule.hit(
            recipe.base_span,
            f"`{recipe.base.name}` has {recipe.base.title} without CUDA, but {why}: no GPU is used.",
            remedy=_REMEDY.get(recipe.base.framework),
        )


@rule.job
def check_job(job: JobDefinition, project: Project) -> Hits:
    """A container with a GPU whose image is a public one without CUDA."""
    if job.source not in ("container", *CONTAINERS) or job.recipe is not None or job.image.text is None:
        return
    image, gpus = public_image(job.image.text), gpus_per_host(project, job)
    if image is None or image.device != "cpu" or not image.framework or not gpus:
        return
    yield rule.hit(
        job.where(job.image),
        f"`{image.name}` has {image.title} without CUDA, but {job.title} runs it with a GPU: it is not used.",
        remedy=_REMEDY.get(image.framework),
    )


_REMEDY = {
    "tensorflow": "Use the tag with -gpu.",
    "torch": "Use an image with CUDA, such as pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime.",
}
