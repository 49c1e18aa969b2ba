"""Managed spot training interrupts the job when EC2 needs the instance, then restarts the script from the beginning.

Without a checkpoint location all progress of the first attempt is lost: a job that takes longer than the usual time
between two interruptions may never finish. SageMaker copies `/opt/ml/checkpoints` to `checkpoint_s3_uri` while the
script runs, and back before it restarts. Short jobs lose little and are not reported.

Bad:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=86400, max_wait=90000,  # <-
    )

Good:

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", framework_version="2.3", py_version="py311",
        instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=86400, max_wait=90000, checkpoint_s3_uri="s3://bucket/checkpoints",
    )

Quiet: spot is turned off

    from sagemaker.pytorch import PyTorch

    use_spot = False
    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge", use_spot_instances=use_spot,
    )

Quiet: a job of ten minutes

    from sagemaker.pytorch import PyTorch

    PyTorch(
        entry_point="train.py", role="r", instance_count=1, instance_type="ml.g5.xlarge",
        use_spot_instances=True, max_run=600, max_wait=1200,
    )
"""

from gpuproof.findings import Severity
from gpuproof.linter.analysis.values import Value
from gpuproof.linter.jobs.definition import JobDefinition
from gpuproof.linter.knowledge.instances import hourly_price, hourly_text
from gpuproof.linter.knowledge.kept_folders import has_checkpoint_location
from gpuproof.linter.project import Project
from gpuproof.linter.rule import Hits, Rule, lowered

rule = Rule("CO103", "spot-without-checkpoint", Severity.WARNING)

_SHORT_SECONDS = 15 * 60
_SPOT = (
    "use_spot_instances",
    "train_use_spot_instances",
    "enable_managed_spot_training",
    "EnableManagedSpotTraining",
)


@rule.job
def check(job: JobDefinition, project: Project) -> Hits:
    if job.kind != "training" or job.source in ("gpuproof", "what-if"):
        return
    spot = next((value for name in _SPOT if (value := job.arguments.get(name)) is not None), None)
    if spot is None or spot.flag is not True or has_checkpoint_location(job):
        return
    limit = _time_limit(job)
    if limit is not None and limit <= _SHORT_SECONDS:
        return
    price = (
        hourly_price(project, job.instance_type.text or "", "training") if job.instance_type.text else None
    )
    cost = f" and {hourly_text(price)} of `{job.instance_type.text}` is paid for again" if price else ""
    key = (
        "CheckpointConfig"
        if job.source == "boto3"
        else "checkpoint_s3_uri"
        if job.source == "sagemaker-v2"
        else "checkpoint_config"
    )
    yield rule.hit(
        job.where(spot),
        f"Spot training without a checkpoint location: after an interruption, training restarts from scratch{cost}.",
        remedy=f"Pass {key}, save to /opt/ml/checkpoints, and load from there at startup.",
        severity=rule.severity if spot.is_known else lowered(rule.severity),
    )


def _time_limit(job: JobDefinition) -> float | None:
    """The job's time limit in seconds; None if it is not specified."""
    condition = job.argument("StoppingCondition")
    values: tuple[Value, ...] = (
        *(job.argument("max_run"), job.argument("train_max_run")),
        *(condition.at("MaxRuntimeInSeconds"), job.argument("max_runtime_in_seconds")),
    )
    return next((value.number for value in values if value.number is not None), None)
