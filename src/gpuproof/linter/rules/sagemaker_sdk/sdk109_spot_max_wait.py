"""Managed Spot training requires a maximum wait time that is at least the maximum run time.

The maximum wait covers both waiting for capacity and training. Without `max_wait`, or with a value below `max_run`
(24 hours by default), the service rejects the job with a ValidationException.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True,  # <-
        max_run=3600,
    )

Bad: the default of max_run is 24 hours

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True,
        max_wait=7200,  # <-
    )

Bad:

    import boto3

    boto3.client("sagemaker").create_training_job(
        TrainingJobName="train",
        EnableManagedSpotTraining=True,  # <-
        StoppingCondition={"MaxRuntimeInSeconds": 3600},
        ResourceConfig={"InstanceType": "ml.g5.xlarge", "InstanceCount": 1, "VolumeSizeInGB": 50},
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="role", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=3600, max_wait=7200, checkpoint_s3_uri="s3://bucket/checkpoints",
    )

Quiet: a value defined elsewhere

    import sys
    from sagemaker.pytorch import PyTorch

    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", use_spot_instances=True, max_wait=int(sys.argv[1]))
    PyTorch(entry_point="train.py", instance_type="ml.g5.xlarge", use_spot_instances=bool(sys.argv[2]), max_run=60)
"""

from typing import NamedTuple

from gpuproof.findings import Severity
from gpuproof.linter.analysis.call import origin_call
from gpuproof.linter.analysis.values import ABSENT, Value, known
from gpuproof.linter.fixing.edits import add_keyword
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered
from gpuproof.linter.source.edit import Fix

rule = Rule("SDK109", "spot-max-wait", Severity.ERROR)

_DAY = 86400
"""Default of `max_run` in SDK v2 and of the service, in seconds."""


class _Spot(NamedTuple):
    """Spot settings of a job: whether it is enabled, its limits in seconds, and the parameter for the wait limit."""

    enabled: Value
    run: Value
    wait: Value
    wait_parameter: str


@rule.job
def check(job: JobDefinition, _: Project) -> Hits:
    if job.kind != "training" or (spot := _spot(job)) is None or spot.enabled.flag is not True:
        return
    severity = rule.severity if spot.enabled.is_known else lowered(rule.severity)
    run = spot.run if not spot.run.is_absent else known(_DAY)
    if spot.wait.is_absent or (spot.wait.is_known and spot.wait.value is None):
        wanted = int((run.number or _DAY) * 2)
        yield rule.hit(
            job.where(spot.enabled),
            f"Spot training is enabled without `{spot.wait_parameter}`: the service rejects the job.",
            remedy=f"Add {spot.wait_parameter}={wanted}, in seconds, for waiting and training together.",
            severity=severity,
            fix=_fix(job, f"{spot.wait_parameter}={wanted}") if job.source == "sagemaker-v2" else None,
        )
    elif run.number is not None and spot.wait.number is not None and spot.wait.number < run.number:
        limit = "the default of 24 hours" if spot.run.is_absent else "the maximum run time"
        yield rule.hit(
            job.where(spot.wait),
            f"`{spot.wait_parameter}` is {spot.wait.number:g} s, less than {limit} ({run.number:g} s): the service rejects the job.",
            remedy=f"Set it to at least the maximum run time: {spot.wait_parameter}={run.number:g} or more.",
            severity=severity if spot.wait.is_known else lowered(rule.severity),
        )


def _spot(job: JobDefinition) -> _Spot | None:
    match job.source:
        case "sagemaker-v2":
            return _Spot(
                _either(job, "use_spot_instances", "train_use_spot_instances"),
                _either(job, "max_run", "train_max_run"),
                _either(job, "max_wait", "train_max_wait"),
                "max_wait",
            )
        case "boto3":
            limits = job.argument("StoppingCondition")
            return _Spot(
                job.argument("EnableManagedSpotTraining"),
                limits.at("MaxRuntimeInSeconds"),
                limits.at("MaxWaitTimeInSeconds"),
                "StoppingCondition.MaxWaitTimeInSeconds",
            )
        case "sagemaker-v3":
            limit = _stopping_condition(job)
            return _Spot(
                job.arguments.get("enable_managed_spot_training", ABSENT),
                limit("max_runtime_in_seconds"),
                limit("max_wait_time_in_seconds"),
                "stopping_condition.max_wait_time_in_seconds",
            )
        case _:
            return None


def _either(job: JobDefinition, name: str, old: str) -> Value:
    value = job.argument(name)
    return job.argument(old) if value.is_absent else value


def _stopping_condition(job: JobDefinition):
    """Returns a reader for the fields of v3's `stopping_condition=StoppingCondition(...)`."""
    call = job.call
    node = call.expression("stopping_condition") if call is not None else None
    origin = origin_call(call.module, node) if call is not None else None

    def field(name: str) -> Value:
        return origin.argument(name) if origin is not None else job.argument("stopping_condition")

    return field


def _fix(job: JobDefinition, text: str) -> Fix | None:
    return Fix(f"Add {text}", (add_keyword(job.call, text),)) if job.call is not None else None
