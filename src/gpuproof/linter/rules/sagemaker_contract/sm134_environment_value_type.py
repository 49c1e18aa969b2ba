"""A job's environment has a value that is not text: the request is rejected.

CreateTrainingJob, CreateModel and the other operations of SageMaker take a mapping of text to text. botocore raises
ParamValidationError: "Invalid type for parameter Environment.EPOCHS", and SDK v3 a ValidationError of pydantic.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge",
        environment={"NCCL_DEBUG": "INFO", "EPOCHS": 15},  # <-
    ).fit()

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge", environment={"NCCL_DEBUG": "INFO", "EPOCHS": "15"},
    ).fit()

Quiet: converted, or only known later

    from settings import EPOCHS
    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", instance_type="ml.g5.xlarge", environment={"EPOCHS": str(15), "STEPS": EPOCHS},
    ).fit()
"""

from gpuproof.findings import Severity
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule

rule = Rule("SM134", "environment-value-type", Severity.ERROR)


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    # SDK106 compares requests of boto3 with the service's model.
    if job.source not in ("sagemaker-v2", "sagemaker-v3") or job.model is not None:
        return
    for name, value in job.environment.parts.items():
        if value.is_known and isinstance(value.value, (bool, int, float)):
            yield rule.hit(
                job.where(value, job.environment),
                f"The variable {name} of the environment is {value.value!r}, and must be text: SageMaker rejects the request.",
                remedy=f'Write "{value.value}".',
            )
