"""What a person should know of the difference between the job's words and what SageMaker does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuproof.backends.sagemaker.planning.agent_job import DEFAULT_GRACE_SECONDS, unused_rule
from gpuproof.backends.sagemaker.requests.common import DEFAULT_DURATION, Target, max_runtime
from gpuproof.catalogue import Catalogue
from gpuproof.jobs.spec import Job, ProcessingJob, TrainingJob
from gpuproof.units import Duration


def notes_for(job: Job, target: Target, catalogue: Catalogue) -> list[str]:
    """The notes on a job that begins with one instance type."""
    return [
        *job.warnings,
        *_of_cost(job, target),
        *_of_settings(job, target),
        *_of_gpu(job, target, catalogue),
    ]


def _of_cost(job: Job, target: Target) -> Iterator[str]:
    if job.max_duration is None:
        price = target.candidate.price
        cost = ""
        if price is not None:
            most = price.usd_per_hour * max_runtime(job) / 3600 * job.instance_count
            cost = f", which may cost ${most:,.2f}"
        yield f"no max_duration: SageMaker stops it after {DEFAULT_DURATION}{cost}; --max-duration sets another"
    if job.sagemaker.keep_alive is not None:
        yield f"the hosts stay for {job.sagemaker.keep_alive} after it has ended, and cost as much as while it runs"
    if job.instance_count > 1:
        yield f"each of the {job.instance_count} hosts runs the script; SM_HOSTS and SM_CURRENT_HOST tell them apart"


def _of_settings(job: Job, target: Target) -> Iterator[str]:
    own, instance, is_training = job.sagemaker, target.instance, isinstance(job, TrainingJob)
    if isinstance(job, ProcessingJob) and job.resources.spot:
        yield "SageMaker has no spot capacity for processing jobs: it runs on demand"
    if own.max_wait is not None and not job.resources.spot:
        yield "max_wait is for spot capacity alone, and was left out"
    elif is_training and own.max_wait is not None and own.max_wait.seconds < max_runtime(job):
        limit = Duration(max_runtime(job))
        yield f"max_wait ({own.max_wait}) counts the running too, and was raised to the time limit, {limit}"
    if instance is not None and instance.local_disk and (own.volume_size or own.volume_kms_key):
        disks = f"{instance.local_disk // 10**9:,} GB"
        yield f"{target.name} has disks of its own ({disks}, encrypted by its hardware): volume settings do not count"
    if own.network_isolation and (Path(job.source_dir) / "requirements.txt").is_file():
        yield "requirements.txt is not to be installed with network_isolation: the image must have it all"
    checkpoint = job.checkpoint if isinstance(job, TrainingJob) else None
    if checkpoint is not None and checkpoint.s3 is None:
        yield f"{checkpoint.path} is a folder of this machine: checkpoints on SageMaker are kept in the bucket"


def _of_gpu(job: Job, target: Target, catalogue: Catalogue) -> Iterator[str]:
    rule = unused_rule(job, target.expected)
    if rule is not None and job.if_gpu_unused is None:
        minutes = DEFAULT_GRACE_SECONDS / 60
        yield (
            f"a job that does not touch its GPU in {minutes:.0f} minutes is stopped, since it costs; "
            "if_gpu_unused in the job sets another rule"
        )
    price = target.candidate.price
    if price is None and target.instance is not None:
        yield f"what {target.name} costs is not in the catalogue: gpuproof catalogue refresh"
    if (instance := catalogue.instance(target.name)) is not None and instance.status == "capacity-block":
        yield f"{target.name} is sold by reservation; without one AWS may have none"
