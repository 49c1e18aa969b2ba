"""The image is built for CPUs, but the instance has GPUs, which the image cannot use.

AWS's tags contain `-cpu-` or `-gpu-`. The CPU images have frameworks without CUDA: `torch.cuda.is_available()` is
False, and the job trains on the host's few CPU cores at the price of a GPU.

Bad:

    from sagemaker.estimator import Estimator

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker"
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.g5.xlarge")  # <-

Good:

    from sagemaker.estimator import Estimator

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker"
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.g5.xlarge")

Quiet: a CPU image on a CPU instance

    from sagemaker.estimator import Estimator

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-cpu-py311-ubuntu20.04-sagemaker"
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.m5.xlarge")

Quiet: the SDK selects the image for the instance

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3", py_version="py311",
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name, is_aws_container
from gpuproof.linter.knowledge.aws.instance_references import replace_text
from gpuproof.linter.knowledge.aws.instances import find_instance, hourly_price, hourly_text, no_price
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix

rule = Rule("FW103", "cpu-image-on-gpu", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    image = image_name(job.image)
    instance = find_instance(project, job.instance_type)
    if image is None or image.device != "cpu" or instance is None or not instance.gpu_count:
        return
    if not is_aws_container(image, project):
        return
    price = hourly_price(project, instance.name, job.kind)
    cost = f" at {hourly_text(price)}" if price else no_price(project)
    gpus = f"{instance.gpu_count} {instance.gpu_model}" if instance.gpu_count > 1 else f"{instance.gpu_model}"
    region = image.region or project.region
    better = (
        project.catalogue.image(image.framework, image.version, job.kind, instance.name, region)
        if image.framework and image.version
        else None
    )
    edits = replace_text(job.image, image.text, better.uri) if better and image.text else ()
    yield rule.hit(
        job.where(job.image),
        f"The image is a CPU build (`{image.tag}`) and cannot use the {gpus} of `{instance.name}`{cost}.",
        remedy=f"Use {better.uri}, or a CPU instance." if better else "Use the -gpu- tag, or a CPU instance.",
        severity=rule.severity
        if job.instance_type.is_known and job.image.certainty != "default"
        else lowered(rule.severity),
        fix=Fix(f"Use {better.row.tag}", edits) if edits and better else None,
    )
