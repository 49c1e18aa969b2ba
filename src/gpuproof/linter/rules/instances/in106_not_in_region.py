"""The instance type is not offered in the job's region.

The availability of GPU types differs between regions; the request is rejected, or waits for capacity that never
becomes available. The lists are EC2's, by region and with their date; SageMaker offers at most the same types. The
rule does not report jobs without an explicit region.

Bad:

    import boto3

    client = boto3.client("sagemaker", region_name="eu-west-3")
    client.create_training_job(
        TrainingJobName="j",
        ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},  # <-
    )

Bad: a job of GPUproof

    # file: gpuproof.yaml
    entry_point: train.py
    instance_type: ml.p5.48xlarge  # <-
    resources:
      region: eu-west-3
    # file: train.py
    print("train")

Good:

    import boto3

    client = boto3.client("sagemaker", region_name="us-east-1")
    client.create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1", "TrainingInputMode": "File"
        },
        RoleArn="arn:aws:iam::123456789012:role/training",
        OutputDataConfig={"S3OutputPath": "s3://bucket/models"},
        StoppingCondition={"MaxRuntimeInSeconds": 86400},
        ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )

Quiet: no region

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="j",
        ResourceConfig={"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )

Quiet: the lists only contain GPU types

    import boto3

    boto3.client("sagemaker", region_name="eu-west-3").create_training_job(
        TrainingJobName="j",
        ResourceConfig={"InstanceType": "ml.m5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instance_references import region_of
from gpuproof.linter.knowledge.aws.instances import find_instance, use_of
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IN106", "not-in-region", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if not job.instance_type.is_known:
        return
    instance, region = find_instance(project, job.instance_type), region_of(job, project)
    if instance is None or not instance.gpu_count or instance.status != "offered" or region is None:
        return
    catalogue = project.catalogue
    if region not in catalogue.regions() or catalogue.offerings(instance.name, region):
        return
    found = catalogue.replacements(instance.name, use_of(job, instance), region)
    there = ", ".join(dict.fromkeys(offering.region for offering in catalogue.offerings(instance.name)))
    instead = f"Use {found[0].instance.name}, which {region} offers, or a" if found else "Use a"
    yield rule.hit(
        job.where(job.instance_type),
        f"`{instance.name}` is not offered in {region}.",
        remedy=f"{instead} region that offers this type: {there}." if there else None,
    )
