"""Warnings about a job on SageMaker: its cost, settings that do not apply, and rules about its GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuproof.backends.remote.agent_job import DEFAULT_GRACE_SECONDS, unused_rule
from gpuproof.backends.sagemaker.requests.common import DEFAULT_DURATION, max_runtime
from gpuproof.backends.sagemaker.target import Target
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.prices import cost_text
from gpuproof.jobs.distribution.launchers import NONE
from gpuproof.jobs.models.script_jobs import ProcessingJob, SageMakerJob, TrainingJob
from gpuproof.units import Duration


def job_warnings(job: SageMakerJob, target: Target, catalogue: Catalogue) -> list[str]:
    """The warnings about a job.

    Args:
        target: the instance type that is tried first.
    """
    return [
        *job.warnings,
        *_cost_warnings(job, target),
        *_setting_warnings(job, target),
        *_gpu_warnings(job, target, catalogue),
        *target.launch.notes,
    ]


def _cost_warnings(job: SageMakerJob, target: Target) -> Iterator[str]:
    if job.max_duration is None:
        price = target.candidate.price
        cost = ""
        if price is not None:
            most = cost_text(price, max_runtime(job) / 3600 * job.instance_count)
            cost = f", which may cost {most}"
        yield f"no max_duration: SageMaker stops the job after {DEFAULT_DURATION}{cost}; set --max-duration to change that"
    if job.sagemaker.keep_alive is not None:
        yield f"the hosts are kept for {job.sagemaker.keep_alive} after the job has ended, at the same price"
    if job.instance_count > 1 and target.launch.launcher == NONE:
        yield f"each of the {job.instance_count} hosts runs the script; see SM_HOSTS and SM_CURRENT_HOST"


def _setting_warnings(job: SageMakerJob, target: Target) -> Iterator[str]:
    own, instance, is_training = job.sagemaker, target.instance, isinstance(job, TrainingJob)
    if isinstance(job, ProcessingJob) and job.resources.spot:
        yield "SageMaker has no spot capacity for processing jobs: the job runs on demand"
    if own.max_wait is not None and not job.resources.spot:
        yield "max_wait applies only to spot capacity and is ignored"
    elif is_training and own.max_wait is not None and own.max_wait.seconds < max_runtime(job):
        limit = Duration(max_runtime(job))
        yield f"max_wait ({own.max_wait}) includes the running time and was raised to the time limit, {limit}"
    if instance is not None and instance.local_disk and (own.volume_size or own.volume_kms_key):
        disks = f"{instance.local_disk // 10**9:,} GB"
        yield f"{target.name} has local disks ({disks}, hardware-encrypted): volume settings are ignored"
    if own.network_isolation and (Path(job.source_dir) / "requirements.txt").is_file():
        yield "requirements.txt cannot be installed with network_isolation: the image must contain all packages"
    checkpoint = job.checkpoint if isinstance(job, TrainingJob) else None
    if checkpoint is not None and checkpoint.s3 is None:
        yield f"{checkpoint.path} is a local folder: on SageMaker checkpoints are kept in the bucket"


def _gpu_warnings(job: SageMakerJob, target: Target, catalogue: Catalogue) -> Iterator[str]:
    rule = unused_rule(job, target.expected)
    if rule is not None and job.if_gpu_unused is None:
        minutes = DEFAULT_GRACE_SECONDS / 60
        yield (
            f"the job is stopped if its GPU is unused for the first {minutes:.0f} minutes; "
            "set if_gpu_unused in the job to change that"
        )
    price = target.candidate.price
    if price is None and target.instance is not None:
        yield f"the catalogue has no price for {target.name}; to update it: gpuproof catalogue refresh"
    if (instance := catalogue.instance(target.name)) is not None and instance.status == "capacity-block":
        yield f"{target.name} is sold by reservation; without one it may be unavailable"
