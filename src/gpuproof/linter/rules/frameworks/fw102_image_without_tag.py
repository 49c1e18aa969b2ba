"""AWS's Deep Learning Containers have no tag `latest`, which is what an image URI without a tag refers to.

The job fails at the start because the image does not exist. Every tag in these repositories contains the version, the
device and the Python version.

Bad:

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training",  # <-
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )

Bad:

    from sagemaker.estimator import Estimator

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:latest"
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.g5.xlarge")  # <-

Good:

    from sagemaker.estimator import Estimator

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker"
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.g5.xlarge")

Quiet: a custom repository may have the tag `latest`

    from sagemaker.estimator import Estimator

    IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-training"
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.g5.xlarge")

Quiet: the tag is defined elsewhere

    import sys
    from sagemaker.estimator import Estimator

    IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:" + sys.argv[1]
    Estimator(image_uri=IMAGE, role="role", instance_count=1, instance_type="ml.g5.xlarge")
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name, is_aws_container
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("FW102", "image-without-tag", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    image = image_name(job.image)
    if (
        image is None
        or image.digest
        or image.tag not in ("", "latest")
        or not is_aws_container(image, project)
    ):
        return
    what = "has no tag, which means `latest`" if not image.tag else "uses the tag `latest`"
    framework = "torch" if image.framework == "torch" else "tensorflow"
    name = job.instance_type.text or "ml.g5.xlarge"
    use = "endpoint" if image.scope == "inference" else "training"
    found = project.catalogue.image(framework, None, use, name, image.region or project.region)
    is_same = found is not None and image.framework is not None
    yield rule.hit(
        job.where(job.image),
        f"`{image.repository}` {what}: AWS's repository has no such tag, so the job cannot start.",
        remedy=f"Use a tag such as {found.row.repository}:{found.row.tag}."
        if found is not None and is_same
        else "Use a tag that AWS publishes, or sagemaker.image_uris.retrieve().",
        severity=rule.severity if job.image.certainty != "default" else lowered(rule.severity),
    )
