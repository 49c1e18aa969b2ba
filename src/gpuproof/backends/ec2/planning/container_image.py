"""Chooses the container image of a job: its own, or the AWS Deep Learning Container for its framework."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpuproof.agent.ec2_host.container.ecr_registry import EcrImage, ecr_image
from gpuproof.backends.ec2.target import ContainerImage
from gpuproof.backends.remote.agent_job import contract_kind
from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.model import ImageRow
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import Job

_CUDA_TAG = re.compile(r"-cu(\d{2})(\d)-")
"""The CUDA version in the tag of an AWS image: `2.9-gpu-py312-cu130-ubuntu22.04-ec2`."""

_UNKNOWN_TYPE = "g5.xlarge"
"""The known type whose image an unknown type gets."""


def container_image(
    job: Job, framework: Framework | None, candidate: Candidate, catalogue: Catalogue, region: str
) -> ContainerImage | None:
    """The image for one instance type; None if the job runs in the AMI's environment.

    The name of an image of another region is used as it is: ECR serves it there.

    Args:
        framework: the job's framework; None if it uses none.

    Raises:
        InvalidJob: there is no image for the job, or it cannot run on the instance type.
    """
    if job.image is not None:
        chosen = _own(job.image, catalogue)
    elif job.ec2.container:
        chosen = _of_framework(job, framework, candidate, catalogue, region)
    else:
        return None
    _check(chosen, candidate, catalogue)
    return replace(chosen, notes=(*chosen.notes, *_notes(chosen, candidate, catalogue, region)))


def _own(uri: str, catalogue: Catalogue) -> ContainerImage:
    found = ecr_image(uri)
    row = _row(found, catalogue) if found is not None else None
    cuda = row.cuda if row is not None else ""
    if (
        found is not None
        and not cuda
        and _is_of_aws(found, catalogue)
        and (tag := _CUDA_TAG.search(found.name))
    ):
        cuda = f"{tag[1]}.{tag[2]}"
    return ContainerImage(uri, "the job's own", row, cuda)


def _of_framework(
    job: Job, framework: Framework | None, candidate: Candidate, catalogue: Catalogue, region: str
) -> ContainerImage:
    if framework is None:
        raise InvalidJob(
            f"'{job.name}' sets ec2.container, and uses no framework: GPUproof cannot choose an image.",
            remedy="Name the image: --image ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG",
        )
    name = candidate.name if candidate.instance is not None else _UNKNOWN_TYPE
    found = catalogue.image(framework.name, framework.version, contract_kind(job), name, region)
    notes: tuple[str, ...] = ()
    if found is None and framework.version is not None and not framework.pinned:
        found = catalogue.image(framework.name, None, contract_kind(job), name, region)
        pinned = f"{framework.name} {framework.version}, which requirements.txt pins"
        notes = (f"AWS has no image of {pinned}: it is installed when the job starts",)
    if found is None:
        what = f"{framework.name} {framework.version or ''}".strip()
        raise InvalidJob(
            f"The catalogue knows no AWS Deep Learning Container with {what} for {candidate.name} in {region}.",
            remedy="Use another framework_version, name an image (--image), or remove ec2.container: the job then runs in "
            "the environment of an AMI.",
        )
    return ContainerImage(found.uri, framework.because, found.row, found.row.cuda, notes)


def _check(image: ContainerImage, candidate: Candidate, catalogue: Catalogue) -> None:
    """Reject an image that cannot run on an instance type.

    Raises:
        InvalidJob: it is for another processor, or its framework does not support the GPU.
    """
    row, instance = image.row, candidate.instance
    if row is None or instance is None:
        return
    if row.arch != instance.arch:
        raise InvalidJob(
            f"The image {image.uri} is for {row.arch}, and {candidate.name} has {instance.arch} processors.",
            remedy="Use an image of the same architecture, or another instance type.",
        )
    gpu = catalogue.gpu(instance.gpu_model) if instance.gpu_model else None
    if gpu is None or row.device != "gpu":
        return
    support = catalogue.runs_on(f"{row.framework}=={row.version}", gpu)
    if support.kind == "no":
        raise InvalidJob(
            f"{candidate.name}: {support.reason}",
            remedy="Use an image with another version of the framework, or another instance type.",
        )


def _notes(image: ContainerImage, candidate: Candidate, catalogue: Catalogue, region: str) -> Iterator[str]:
    row, found = image.row, ecr_image(image.uri)
    if row is not None and row.device == "cpu" and candidate.gpus:
        yield f"{image.uri} is an image for CPUs: the job will not see the GPU of {candidate.name}"
    if row is not None and row.status == "ended":
        yield f"AWS no longer patches its image of {row.framework} {row.version}"
    if found is None:
        return
    yield (
        "the instance pulls the image with its role, which needs the permissions for ECR of: gpuproof iam policy --on ec2 --role"
    )
    if found.region != region:
        near = _same_in(found, region, catalogue)
        instead = f"; the same image is {near}" if near else ""
        yield (
            f"the image is in {found.region}: pulling it to {region} takes longer, costs data transfer, and the role must be "
            f"allowed to pull there{instead}"
        )


def _row(image: EcrImage, catalogue: Catalogue) -> ImageRow | None:
    """The catalogue's facts about one of AWS's images."""
    if not _is_of_aws(image, catalogue):
        return None
    repository, _, tag = image.name.partition(":")
    rows = (*catalogue.tables.images, *catalogue.tables.huggingface_images)
    return next((row for row in rows if (row.repository, row.tag) == (repository, tag)), None)


def _is_of_aws(image: EcrImage, catalogue: Catalogue) -> bool:
    registry = catalogue.tables.registries.get(image.region)
    return registry is not None and registry.account == image.account


def _same_in(image: EcrImage, region: str, catalogue: Catalogue) -> str:
    """The name of one of AWS's images in another region; empty if it is not AWS's, or if the region is unknown."""
    registry = catalogue.tables.registries.get(region)
    if registry is None or not _is_of_aws(image, catalogue):
        return ""
    return f"{registry.account}.dkr.ecr.{registry.region}.{registry.dns_suffix}/{image.name}"
