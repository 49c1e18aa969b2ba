"""A framework container runs the script in `sagemaker_program`; a request without it trains nothing.

The SDK adds two hyperparameters to every job: `sagemaker_program`, the script, and `sagemaker_submit_directory`, the
`sourcedir.tar.gz` on S3 that contains it. A direct request has to contain both. Without a program the training
toolkit fails as soon as the instance is ready (sagemaker-training-toolkit, `environment.py`).

Bad:

    import boto3

    boto3.client("sagemaker").create_training_job(  # <-
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.19.0-gpu-py312",
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        HyperParameters={"epochs": "10"},
    )

Good:

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.19.0-gpu-py312",
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
        RoleArn="arn:aws:iam::123456789012:role/training",
        OutputDataConfig={"S3OutputPath": "s3://bucket/models"},
        StoppingCondition={"MaxRuntimeInSeconds": 86400},
        HyperParameters={
            "epochs": "10",
            "sagemaker_program": "train.py",
            "sagemaker_submit_directory": "s3://bucket/sourcedir.tar.gz",
        },
    )

Quiet: a custom image

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "123456789012.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:mine",
            "TrainingInputMode": "File",
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )

Quiet: the request contains the command

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="j",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312",
            "TrainingInputMode": "File",
            "ContainerEntrypoint": ["python", "/opt/ml/input/data/code/train.py"],
        },
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name, is_aws_container
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM118", "dlc-without-program", Severity.ERROR)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.source != "boto3" or job.kind != "training":
        return
    image = image_name(job.image)
    if image is None or image.scope != "training" or not is_aws_container(image, project):
        return
    algorithm = job.argument("AlgorithmSpecification")
    if not (algorithm.at("ContainerEntrypoint").is_absent and algorithm.at("ContainerArguments").is_absent):
        return
    given, environment = job.hyperparameters, job.environment
    needed = (
        ("sagemaker_program", "SAGEMAKER_PROGRAM"),
        ("sagemaker_submit_directory", "SAGEMAKER_SUBMIT_DIRECTORY"),
    )
    missing = [
        name for name, variable in needed if given.at(name).is_absent and environment.at(variable).is_absent
    ]
    # A channel may contain the code; then only the name of the program is required.
    if not missing or (
        missing == ["sagemaker_submit_directory"] and (job.channels or not job.channels_known)
    ):
        return
    yield rule.hit(
        job.span,
        f"`{image.repository}` runs the script named in the hyperparameters; this request has no "
        f"{' and no '.join(f'`{name}`' for name in missing)}: nothing is trained.",
        remedy='Add HyperParameters "sagemaker_program": "train.py" and "sagemaker_submit_directory": '
        '"s3://bucket/sourcedir.tar.gz", or an AlgorithmSpecification with ContainerEntrypoint.',
    )
