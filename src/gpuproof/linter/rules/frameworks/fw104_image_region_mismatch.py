"""SageMaker pulls AWS's images from the registry of its own region; an image URI of another region fails the job.

The job fails when it pulls the image. `sagemaker.image_uris.retrieve` always uses the region of the session, so the
two always match.

Bad:

    import boto3

    boto3.client("sagemaker", region_name="eu-west-1").create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",  # <-
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )

Good:

    import boto3

    boto3.client("sagemaker", region_name="us-east-1").create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        RoleArn="arn:aws:iam::123456789012:role/training",
        OutputDataConfig={"S3OutputPath": "s3://bucket/models"},
        StoppingCondition={"MaxRuntimeInSeconds": 86400},
        HyperParameters={
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": "s3://bucket/sourcedir.tar.gz",
        },
    )

Quiet: the job's region is unknown

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )

Quiet: the URI contains the job's region

    import boto3

    REGION = "eu-west-1"
    boto3.client("sagemaker", region_name=REGION).create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": f"763104351884.dkr.ecr.{REGION}.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name
from gpuproof.linter.knowledge.aws.instance_references import region_of, replace_text
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule
from gpuproof.linter.source.edit import Fix

rule = Rule("FW104", "image-region-mismatch", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    image, region = image_name(job.image), region_of(job, project)
    if (
        image is None
        or not job.image.is_known
        or not image.region
        or region is None
        or image.region == region
    ):
        return
    registries = project.catalogue.tables.registries
    if region not in registries or image.region not in registries:
        return
    own = registries[image.region].account == image.account
    account = registries[region].account if own else image.account
    old = f"{image.account}.dkr.ecr.{image.region}."
    edits = replace_text(job.image, old, f"{account}.dkr.ecr.{region}.") if own else ()
    yield rule.hit(
        job.where(job.image),
        f"The image is in {image.region} but the job is in {region}: SageMaker does not pull images from another region.",
        remedy=f"Write {account}.dkr.ecr.{region}..., or use sagemaker.image_uris.retrieve()."
        if own
        else f"Copy the image to {region} (for example with ECR replication), and use that copy.",
        fix=Fix(f"Use the registry of {region}", edits) if edits else None,
    )
