"""Input and common parts of the requests that create training and processing jobs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuproof.backends.remote.s3_layout import AGENT
from gpuproof.backends.sagemaker.target import Target
from gpuproof.catalogue.model import Instance
from gpuproof.jobs.models.script_jobs import SageMakerJob
from gpuproof.units import Duration
from gpuproof.version import __version__

DEFAULT_DURATION = Duration(86_400)
"""SageMaker's default for training jobs; processing jobs have no default limit."""

DEFAULT_VOLUME_GB = 30
PYTHON = "python3"


@dataclass(frozen=True)
class Addresses:
    """The `s3://` addresses of all files of a run.

    Args:
        code: the folder with agent, source and `job.json`.
        inputs: by channel, or by the key of a processing job's input.
        output: the prefix of a training job's archives.
        outputs: by the key of a processing job's output.
        verdict: the prefix of a processing job's verdict.
        checkpoints: the prefix that `/opt/ml/checkpoints` is synchronized with.
    """

    code: str
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    output: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    verdict: str = ""
    checkpoints: str | None = None


@dataclass(frozen=True)
class JobRequest:
    """Input of a request that creates a job.

    Args:
        run_id: the name of the SageMaker job.
        bucket: the bucket of the run's files.
        fresh: whether it starts without earlier checkpoints.
    """

    job: SageMakerJob
    run_id: str
    role: str
    bucket: str
    target: Target
    addresses: Addresses
    fresh: bool = False


def entrypoint(folder: str) -> list[str]:
    """The container's command: the agent, with the folder of its files."""
    return [PYTHON, f"{folder}/{AGENT}", "--container", folder]


def max_runtime(job: SageMakerJob) -> int:
    """Seconds after which SageMaker stops the job."""
    return int((job.max_duration or DEFAULT_DURATION).seconds)


def volume_gb(job: SageMakerJob, instance: Instance | None) -> int | None:
    """The size of each host's volume; None for a type with local disks, which uses those.

    Source: the documentation of VolumeSizeInGB in the API's model.
    """
    if instance is not None and instance.local_disk:
        return None
    return job.sagemaker.volume_size or DEFAULT_VOLUME_GB


def volume_key(job: SageMakerJob, instance: Instance | None) -> str | None:
    """The KMS key of the volumes; None for a type with local disks, which are encrypted by hardware."""
    return None if instance is not None and instance.local_disk else job.sagemaker.volume_kms_key


def vpc(job: SageMakerJob) -> dict[str, list[str]] | None:
    """Subnets and security groups; None if the job does not run in a VPC."""
    own = job.sagemaker
    if not own.subnets:
        return None
    return {"Subnets": list(own.subnets), "SecurityGroupIds": list(own.security_groups)}


def tags(request: JobRequest) -> dict[str, str]:
    """The tags by which GPUproof finds the run from any machine, and the user's tags."""
    job, expected = request.job, request.target.expected
    count = f"{job.instance_count} x " if job.instance_count > 1 else ""
    expects = f"{expected.count} {expected.name or 'GPU'}" if expected.count else ""
    # Characters that tags may not have become blanks: they are for people.
    expects = "".join(char if char.isalnum() or char in " _.:/=+-@" else " " for char in expects)
    required = job.require_gpu if job.require_gpu is not None else bool(expected.count)
    return {
        **job.tags,
        "gpuproof:run": request.run_id,
        "gpuproof:job": job.name,
        "gpuproof:kind": job.kind,
        "gpuproof:version": __version__,
        "gpuproof:bucket": request.bucket,
        "gpuproof:instance": f"{count}{request.target.name}",
        "gpuproof:expects": expects,
        "gpuproof:require-gpu": "true" if required else "false",
        **({"gpuproof:fresh": "true"} if request.fresh else {}),
    }
