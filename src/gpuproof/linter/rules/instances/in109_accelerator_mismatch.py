"""The image is built for another accelerator or processor than the instance has: the container fails or finds no
device.

AWS has separate images for Inferentia and Trainium (`-neuronx`) and for Graviton (`-arm64`, `-graviton`). CUDA images
do not use Neuron devices, and x86 images do not run on ARM hosts.

Bad:

    import boto3
    from sagemaker.pytorch import PyTorchModel

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.6.0-gpu-py312-cu124-ubuntu22.04-sagemaker"
    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", image_uri=IMAGE)
    model.deploy(initial_instance_count=1, instance_type="ml.inf2.xlarge")  # <-

Good:

    from sagemaker.pytorch import PyTorchModel

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference-neuronx:2.1.2-neuronx-py310-sdk2.20.2-ubuntu20.04"
    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", image_uri=IMAGE)
    model.deploy(initial_instance_count=1, instance_type="ml.inf2.xlarge")

Quiet: a custom image

    from sagemaker.pytorch import PyTorchModel

    IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine-gpu:1"
    model = PyTorchModel(model_data="s3://bucket/model.tar.gz", role="role", image_uri=IMAGE)
    model.deploy(initial_instance_count=1, instance_type="ml.inf2.xlarge")

Quiet: the SDK selects the matching image

    from sagemaker.pytorch import PyTorchModel

    model = PyTorchModel(model_data="s3://b/m.tar.gz", role="role", framework_version="2.1", py_version="py310")
    model.deploy(initial_instance_count=1, instance_type="ml.c7g.xlarge")
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name, is_aws_container
from gpuproof.linter.knowledge.aws.instances import find_instance
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("IN109", "accelerator-mismatch", Severity.ERROR)

_NEURON = ("inferentia", "trainium")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    instance, image = find_instance(project, job.instance_type), image_name(job.image)
    if instance is None or image is None or not is_aws_container(image, project):
        return
    for_neuron = "neuron" in image.repository or "neuron" in image.tag
    for_arm = any(word in image.repository for word in ("arm64", "graviton"))
    has_neuron = instance.accelerator in _NEURON
    if not image.tag or (for_neuron == has_neuron and (has_neuron or for_arm == (instance.arch == "arm64"))):
        return
    if instance.accelerator not in (*_NEURON, "gpu", "none"):
        return
    instance_kind = (
        instance.accelerator if has_neuron else f"{instance.arch}, {instance.gpu_count or 'no'} GPU"
    )
    image_kind = (
        "Neuron devices" if for_neuron else "ARM hosts" if for_arm else f"x86_64 ({image.device or 'no GPU'})"
    )
    tag_part = (
        "-neuronx"
        if has_neuron
        else "-arm64"
        if instance.arch == "arm64"
        else "-gpu-"
        if instance.gpu_count
        else "-cpu-"
    )
    yield rule.hit(
        job.where(job.instance_type),
        f"The image `{image.repository}:{image.tag}` is built for {image_kind}, but `{instance.name}` has {instance_kind}.",
        remedy=f"Use AWS's {tag_part} image for this instance, or an instance for this image.",
        severity=rule.severity if job.instance_type.is_known else lowered(rule.severity),
    )
