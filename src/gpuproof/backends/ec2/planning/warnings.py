"""Warnings about a job on EC2: its cost, settings that do not apply, and rules about its GPU."""

from __future__ import annotations

from collections.abc import Iterator

from gpuproof.backends.ec2.target import EC2Target
from gpuproof.backends.remote.agent_job import DEFAULT_GRACE_SECONDS, unused_rule
from gpuproof.catalogue.prices import cost_text
from gpuproof.jobs.distribution.launchers import NONE
from gpuproof.jobs.models.script_jobs import Job, TrainingJob
from gpuproof.units import Duration

DEFAULT_DURATION = Duration(86_400)
"""As SageMaker's default for training jobs."""

NOT_COVERED = "nothing outside the instance ends it: one that does not boot, or hangs before its watchdog starts, runs until you stop it."
"""What is not covered without the schedule in AWS that terminates a run's instances."""

_OF_SAGEMAKER = (
    "keep_alive",
    "max_wait",
    "volume_size",
    "encrypt_traffic",
    "volume_kms_key",
    "output_kms_key",
)
"""Settings that a user may expect to apply everywhere: they have flags, protect data, or exist on EC2 under another name."""


def max_runtime(job: Job) -> float:
    """Seconds after the boot at which the instance shuts down."""
    return float((job.max_duration or DEFAULT_DURATION).seconds)


def job_warnings(job: Job, target: EC2Target) -> list[str]:
    """The warnings about a job.

    Args:
        target: the instance type that is tried first.
    """
    return [
        *job.warnings,
        *_cost_warnings(job, target),
        *_setting_warnings(job, target),
        *_host_warnings(job, target),
        *_gpu_warnings(job, target),
        *target.launch.notes,
    ]


def _cost_warnings(job: Job, target: EC2Target) -> Iterator[str]:
    if job.max_duration is None:
        most = ""
        if target.price is not None:
            most = f", which may cost {cost_text(target.price, max_runtime(job) / 3600 * job.instance_count)}"
        yield (
            f"no max_duration: the instance shuts down after {DEFAULT_DURATION}{most}; "
            "set --max-duration to change that"
        )
    if target.price is None and target.instance is not None:
        yield f"the catalogue has no price for {target.name}; to update it: gpuproof catalogue refresh"


def _setting_warnings(job: Job, target: EC2Target) -> Iterator[str]:
    if job.sagemaker.network_isolation:
        yield "network_isolation is a setting of SageMaker: on EC2 the job has network access"
    if unused := [name for name in _OF_SAGEMAKER if getattr(job.sagemaker, name)]:
        yield f"of the job's settings for SageMaker, these have no effect on EC2: {', '.join(unused)}"
    checkpoint = job.checkpoint if isinstance(job, TrainingJob) else None
    if checkpoint is not None and checkpoint.s3 is None:
        yield f"{checkpoint.path} is a local folder: on EC2 checkpoints are kept in the bucket"
    most, spot = job.resources.max_price, target.spot_price
    if job.resources.spot and most is not None and spot is not None and spot > float(most.usd):
        yield f"the spot price of {target.name} is ${spot:.4g} an hour now, more than max_price ({most})"
    if target.ami.row is not None and target.instance is not None and not target.instance.gpu_count:
        yield f"{target.name} has no GPU; AWS provides this AMI for instances with one"


def _host_warnings(job: Job, target: EC2Target) -> Iterator[str]:
    if job.instance_count == 1:
        return
    if target.launch.launcher == NONE:
        yield f"each of the {job.instance_count} hosts runs the script; see SM_HOSTS and SM_CURRENT_HOST"
    if target.instance is not None and target.instance.efa_interfaces:
        yield f"{target.name} has Elastic Fabric Adapters, which GPUproof does not use on EC2: the hosts communicate over TCP"


def _gpu_warnings(job: Job, target: EC2Target) -> Iterator[str]:
    rule = unused_rule(job, target.expected)
    if rule is not None and job.if_gpu_unused is None:
        minutes = DEFAULT_GRACE_SECONDS / 60
        yield (
            f"the job is stopped if its GPU is unused for the first {minutes:.0f} minutes; "
            "set if_gpu_unused in the job to change that"
        )
