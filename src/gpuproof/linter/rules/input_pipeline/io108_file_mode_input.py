"""The channel is downloaded as a whole before the script starts, while the GPUs are billed: File mode is the default.

FastFile mode streams objects as they are read, so training starts at once. For a few gigabytes the download takes a minute, so
the rule is strict. Source: SageMaker's documentation on access to training data.

Bad:

    from sagemaker.pytorch import PyTorch

    estimator = PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.p4d.24xlarge",
        framework_version="2.6", py_version="py312",
    )
    estimator.fit({"training": "s3://bucket/imagenet"})  # <-

Good:

    from sagemaker.inputs import TrainingInput

    estimator.fit({"training": TrainingInput("s3://bucket/imagenet", input_mode="FastFile")})

Quiet: no GPU waits

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r", instance_count=1, instance_type="ml.m5.xlarge").fit({"training": "s3://b/d"})

Quiet: the job has another mode

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", input_mode="FastFile").fit({"training": "s3://b/d"})
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.aws.instances import gpus_per_host
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("IO108", "file-mode-input", Severity.NOTE, when="strict")


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    is_sdk = job.source == "sagemaker-v2" and job.kind == "training"
    if not is_sdk or not gpus_per_host(project, job) or not job.argument("input_mode").is_absent:
        return
    for name, value in job.channels.items():
        if value.is_known and (value.text or "").startswith("s3://"):
            yield rule.hit(
                job.where(value),
                f"The channel `{name}` is downloaded before the script starts, while `{job.instance_type.text}` is billed.",
                remedy=f'Pass TrainingInput("{value.text}", input_mode="FastFile").',
            )
