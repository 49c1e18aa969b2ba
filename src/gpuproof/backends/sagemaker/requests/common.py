"""What the requests for a training job and for a processing job are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuproof.backends.expected_gpus import ExpectedGpus
from gpuproof.backends.sagemaker.planning.image import ChosenImage
from gpuproof.backends.sagemaker.planning.instance_types import Candidate
from gpuproof.backends.sagemaker.s3_layout import AGENT
from gpuproof.catalogue.model import Instance
from gpuproof.jobs.spec import Job
from gpuproof.units import Duration
from gpuproof.version import __version__

DEFAULT_DURATION = Duration(86_400)
"""SageMaker's own default for training jobs; other jobs have none, and go on until somebody looks."""

DEFAULT_VOLUME_GB = 30
PYTHON = "python3"


@dataclass(frozen=True)
class Target:
    """One instance type to try, with all that follows from it.

    Args:
        candidate: the type.
        image: to run in.
        expected: the GPUs that must work on each host.
    """

    candidate: Candidate
    image: ChosenImage
    expected: ExpectedGpus

    @property
    def name(self) -> str:
        """`ml.g5.xlarge`."""
        return self.candidate.name

    @property
    def instance(self) -> Instance | None:
        """What the catalogue knows of the type."""
        return self.candidate.instance


@dataclass(frozen=True)
class Addresses:
    """Where everything of a run lies on S3; each an `s3://` address.

    Args:
        code: the folder with agent, source and `job.json`.
        inputs: by channel, or by the key of a processing job's input.
        output: what SageMaker puts a training job's archives below.
        outputs: by the key of a processing job's output.
        verdict: where a processing job's verdict goes.
        checkpoints: what `/opt/ml/checkpoints` is kept in step with.
    """

    code: str
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    output: str = ""
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    verdict: str = ""
    checkpoints: str | None = None


@dataclass(frozen=True)
class Order:
    """One job to be created.

    Args:
        job: the description.
        run_id: SageMaker's name for it.
        role: ARN.
        bucket: where the run keeps its files.
        target: what it runs on.
        addresses: where its files lie.
        fresh: whether it was told to begin without earlier checkpoints.
    """

    job: Job
    run_id: str
    role: str
    bucket: str
    target: Target
    addresses: Addresses
    fresh: bool = False


def entrypoint(folder: str) -> list[str]:
    """The container's command: the agent, and the folder where its files lie."""
    return [PYTHON, f"{folder}/{AGENT}", "--container", folder]


def max_runtime(job: Job) -> int:
    """Seconds after which SageMaker stops the job."""
    return int((job.max_duration or DEFAULT_DURATION).seconds)


def volume_gb(job: Job, instance: Instance | None) -> int | None:
    """The size of each host's volume; None for a type with disks of its own, which uses them.

    Source: the documentation of VolumeSizeInGB in the API's model.
    """
    if instance is not None and instance.local_disk:
        return None
    return job.sagemaker.volume_size or DEFAULT_VOLUME_GB


def volume_key(job: Job, instance: Instance | None) -> str | None:
    """The KMS key of the volumes; None for a type with disks of its own, which encrypts them by itself."""
    return None if instance is not None and instance.local_disk else job.sagemaker.volume_kms_key


def vpc(job: Job) -> dict[str, list[str]] | None:
    """Subnets and security groups, where the job runs in a VPC."""
    own = job.sagemaker
    if not own.subnets:
        return None
    return {"Subnets": list(own.subnets), "SecurityGroupIds": list(own.security_groups)}


def tags(order: Order) -> dict[str, str]:
    """The tags by which the run is found and understood from any machine, and the user's own."""
    job, expected = order.job, order.target.expected
    count = f"{job.instance_count} x " if job.instance_count > 1 else ""
    expects = f"{expected.count} {expected.name or 'GPU'}" if expected.count else ""
    # Characters that tags may not have become blanks: they are for people.
    expects = "".join(char if char.isalnum() or char in " _.:/=+-@" else " " for char in expects)
    required = job.require_gpu if job.require_gpu is not None else bool(expected.count)
    return {
        **job.tags,
        "gpuproof:run": order.run_id,
        "gpuproof:job": job.name,
        "gpuproof:kind": job.kind,
        "gpuproof:version": __version__,
        "gpuproof:bucket": order.bucket,
        "gpuproof:instance": f"{count}{order.target.name}",
        "gpuproof:expects": expects,
        "gpuproof:require-gpu": "true" if required else "false",
        **({"gpuproof:fresh": "true"} if order.fresh else {}),
    }


def tag_list(given: Mapping[str, str]) -> list[dict[str, str]]:
    """Tags as the API takes them."""
    return [{"Key": key, "Value": value} for key, value in given.items()]
