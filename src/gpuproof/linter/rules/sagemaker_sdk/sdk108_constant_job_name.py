"""A job name that is written out works once: names of jobs are unique in an account and region, also those of finished jobs.

The second run fails with `ResourceInUse`. Names of endpoints and models can be reused only after they are deleted. The rule
is strict, because a script may run once. Source: SageMaker's API, CreateTrainingJob.

Bad:

    import boto3

    boto3.client("sagemaker").create_training_job(TrainingJobName="train", RoleArn="r")  # <-

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", role="r").fit(job_name="train")  # <-

Good:

    import time

    import boto3

    boto3.client("sagemaker").create_training_job(TrainingJobName=f"train-{int(time.time())}", **request)

Quiet: a name of a model, which may be deleted before

    import boto3

    boto3.client("sagemaker").create_model(ModelName="reviews", ExecutionRoleArn="r")
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import calls_named
from gpuproof.linter.analysis.module import Module
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule(
    "SDK108",
    "constant-job-name",
    Severity.WARNING,
    when="strict",
    needs=(
        "TrainingJobName",
        "ProcessingJobName",
        "TransformJobName",
        "job_name",
        "HyperParameterTuningJobName",
    ),
)

_NAMES = {
    "create_training_job": "TrainingJobName",
    "create_processing_job": "ProcessingJobName",
    "create_transform_job": "TransformJobName",
    "create_hyper_parameter_tuning_job": "HyperParameterTuningJobName",
    "fit": "job_name",
    "run": "job_name",
}


@rule.module
def check(module: Module, _: Project) -> Hits:
    if not module.imports("sagemaker", "boto3"):
        return
    for call in calls_named(module, *_NAMES):
        name = call.argument(_NAMES[call.method])
        if call.receiver is not None and name.is_known and name.text:
            yield rule.hit(
                name.span or call.span,
                f"Names of jobs are unique: the second job `{name.text}` is rejected.",
                remedy='Append the time: f"' + name.text + '-{int(time.time())}".',
            )
