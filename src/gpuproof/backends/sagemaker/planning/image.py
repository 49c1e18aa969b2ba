"""Chooses a job's container image: the job's own, or AWS's for its framework, instance type and region."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuproof.backends.remote.planning.framework import Framework
from gpuproof.backends.remote.planning.instance_search import Candidate
from gpuproof.backends.sagemaker.target import ChosenImage
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.builds import FRAMEWORKS
from gpuproof.catalogue.host_drivers import oldest_driver, runs_with_compat
from gpuproof.catalogue.images import HUGGINGFACE, JOBS
from gpuproof.catalogue.model import Gpu, ImageRow, JobKind
from gpuproof.errors import InvalidJob
from gpuproof.jobs.models.script_jobs import SageMakerJob
from gpuproof.util.versions import version_key

_STAND_INS = {True: "ml.g5.xlarge", False: "ml.m5.xlarge"}
"""The known type whose image an unknown type gets, by whether its family has GPUs."""

_GPU_FAMILY = re.compile(r"^ml\.(g|p)\d")


def choose_image(
    job: SageMakerJob,
    framework: Framework | None,
    candidate: Candidate,
    catalogue: Catalogue,
    region: str,
    seen: Mapping[str, int] | None = None,
) -> ChosenImage:
    """The image of a job on one instance type.

    Args:
        framework: None if the job names its image.
        seen: driver branches of the hosts of this account's earlier jobs, by instance family.

    Raises:
        InvalidJob: the catalogue knows no AWS image for it.
    """
    if framework is None:
        return ChosenImage(job.image or "", None, "the job's own")
    name = candidate.name
    if candidate.instance is None:
        name = _STAND_INS[_GPU_FAMILY.match(name) is not None]
    driver = _host_driver(candidate, catalogue, seen or {})
    branch = driver.branch if driver is not None else None
    found = catalogue.image(framework.name, framework.version, job.kind, name, region, branch)
    because, note = framework.because, None
    if found is None and framework.version is not None and not framework.pinned:
        found = catalogue.image(framework.name, None, job.kind, name, region, branch)
        note = f"AWS has no image of {framework.name} {framework.version}, which requirements.txt pins: it is installed when the job starts"
    if found is None:
        raise _no_image(framework, candidate, job.kind, catalogue, region)
    if driver is not None and found.row.cuda and driver.runs(found.row.cuda, catalogue):
        if framework.version is None:
            because = f"{because}; CUDA {found.row.cuda} runs on driver {driver.branch}, {driver.because}"
    elif driver is not None and found.row.cuda:
        note = note or (
            f"CUDA {found.row.cuda} of the image does not run on driver {driver.branch}, {driver.because}: another "
            "--framework-version or --image may"
        )
    if found.row.status == "ended":
        note = note or f"AWS no longer patches its image of {framework.name} {found.row.version}"
    return ChosenImage(found.uri, found.row, because, note)


class _HostDriver(NamedTuple):
    """The driver that an instance type's hosts are taken to have, with the reason for the user."""

    branch: int
    because: str
    gpu: Gpu | None

    def runs(self, cuda: str, catalogue: Catalogue) -> bool:
        """Whether CUDA `13.3` runs on it, with its compatibility library if need be."""
        floor = catalogue.driver_floor(cuda)
        if floor is None:
            return True
        return self.branch >= version_key(floor.minimum)[0] or runs_with_compat(self.branch, floor, self.gpu)


def _host_driver(candidate: Candidate, catalogue: Catalogue, seen: Mapping[str, int]) -> _HostDriver | None:
    """The driver that counts for a type; None for types without a GPU and unknown types."""
    instance = candidate.instance
    if instance is None or not instance.gpu_count or instance.accelerator != "gpu":
        return None
    gpu = catalogue.gpu(instance.gpu_model or "")
    if instance.family in seen:
        return _HostDriver(seen[instance.family], f"which jobs of this account had on {instance.family}", gpu)
    oldest = oldest_driver(catalogue.tables.host_amis, "training", instance.family, gpu)
    return _HostDriver(oldest, "the oldest that is documented", gpu)


def gpu_problem(image: ChosenImage, candidate: Candidate, catalogue: Catalogue) -> str | None:
    """Why the image's framework does not support the instance type's GPU; None if it does, or if that is unknown."""
    model = candidate.instance.gpu_model if candidate.instance else None
    if image.row is None or model is None or image.row.device != "gpu":
        return None
    gpu = catalogue.gpu(model)
    if gpu is not None and gpu.cuda_last and version_key(image.row.cuda or "0") > version_key(gpu.cuda_last):
        return (
            f"{candidate.name}: the image has CUDA {image.row.cuda}, "
            f"but {gpu.cuda_last} is the last version that supports its {model}"
        )
    support = catalogue.runs_on(f"{image.row.framework}=={image.row.version}", model)
    if support.kind != "no":
        return None
    return f"{candidate.name}: {support.reason}"


def _no_image(
    framework: Framework, candidate: Candidate, kind: JobKind, catalogue: Catalogue, region: str
) -> InvalidJob:
    if region not in catalogue.tables.registries:
        return InvalidJob(
            f"The catalogue does not know the image registry of {region}.",
            remedy="Choose an image: --image ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG",
        )
    device = "gpu" if candidate.instance and candidate.instance.gpu_count else "cpu"
    versions = {
        version
        for version, row in _versions(framework.name, catalogue)
        if (row.job, row.platform) == (JOBS.get(kind), "sagemaker")
        and (candidate.instance is None or (row.device, row.arch) == (device, candidate.instance.arch))
    }
    what = f"{framework.name} {framework.version or ''}".strip()
    have = ", ".join(sorted(versions, key=version_key, reverse=True)[:8])
    return InvalidJob(
        f"The catalogue knows no AWS {device} image of {what} for {kind} jobs on {candidate.name}.",
        remedy=f"Available: {have}. Set --framework-version to one of them, or use your own image: --image."
        if have
        else "Use your own image: --image.",
    )


def _versions(framework: str, catalogue: Catalogue) -> Iterator[tuple[str, ImageRow]]:
    """The versions of a framework for which there are images, with the images."""
    if framework == HUGGINGFACE:
        rows = catalogue.tables.huggingface_images
        yield from ((row.library_version, row) for row in rows if row.library == "transformers")
    else:
        rows = catalogue.tables.images
        yield from ((row.version, row) for row in rows if row.framework == FRAMEWORKS.get(framework))
