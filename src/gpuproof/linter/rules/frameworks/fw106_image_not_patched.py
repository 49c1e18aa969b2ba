"""AWS no longer patches the image of this framework version: it stays in the registry, with its known vulnerabilities.

The job runs as before, so the rule is strict. Source: AWS's support policy of Deep Learning Containers, by the catalogue of
`gpuproof gpus`.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        framework_version="2.3",  # <-
        py_version="py311",
    )

Bad:

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="a",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.6.0-gpu-py312-cu126-ubuntu22.04-sagemaker",  # <-
            "TrainingInputMode": "File",
        },
    )

Good:

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="a",
        AlgorithmSpecification={
            "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.10.0-gpu-py313-cu130-ubuntu22.04-sagemaker",
            "TrainingInputMode": "File",
        },
        HyperParameters={"sagemaker_program": "train.py", "sagemaker_submit_directory": "s3://bucket/code.tar.gz"},
        RoleArn="arn:aws:iam::111122223333:role/training",
        OutputDataConfig={"S3OutputPath": "s3://bucket/models"},
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
    )

Quiet: the version is not known

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", framework_version=args.version, py_version="py311")
"""

from gpuproof.catalogue.model import ImageRow
from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.images import image_name
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("FW106", "image-not-patched", Severity.NOTE, when="strict")

_SCOPES = {"training": "training", "endpoint": "inference", "transform": "inference"}


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    written, rows = _rows(job, project)
    if not rows or any(row.status != "ended" for row in rows):
        return
    until = max(row.patched_until for row in rows)
    named = f"{rows[0].repository} {rows[0].version}"
    patched = sorted(
        (
            row.version
            for row in project.catalogue.tables.images
            if row.repository == rows[0].repository and row.status == "patched"
        ),
        key=lambda version: [int(part) for part in version.split(".") if part.isdigit()],
    )
    yield rule.hit(
        job.where(written),
        f"AWS no longer patches `{named}`{f', since {until}' if until else ''}.",
        remedy=f"Use {patched[-1]}, which AWS patches." if patched else "Use a newer version.",
    )


def _rows(job: JobDefinition, project: Project) -> tuple[Value, list[ImageRow]]:
    """What names the image of a job, and its rows in the catalogue."""
    images = project.catalogue.tables.images
    address = image_name(job.image)
    if address is not None:
        return job.image, [
            row for row in images if row.repository == address.repository and row.tag == address.tag
        ]
    version, scope = job.framework_version, _SCOPES.get(job.kind)
    if (
        job.framework not in ("pytorch", "tensorflow")
        or not version.is_known
        or not version.text
        or not scope
    ):
        return version, []
    return version, [
        row
        for row in images
        if row.repository == f"{job.framework}-{scope}"
        and row.platform == "sagemaker"
        and f"{row.version}.".startswith(f"{version.text}.")
    ]
