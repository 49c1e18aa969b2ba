"""The container image of a job: the job's own, or AWS's for its framework, instance type and region."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuproof.backends.sagemaker.planning.framework import Framework
from gpuproof.backends.sagemaker.planning.instance_types import Candidate
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.builds import FRAMEWORKS, version_key
from gpuproof.catalogue.images import JOBS
from gpuproof.catalogue.model import ImageRow, JobKind
from gpuproof.errors import InvalidJob
from gpuproof.jobs.spec import Job

_STAND_INS = {True: "ml.g5.xlarge", False: "ml.m5.xlarge"}
"""In whose place an unknown type gets its image: by whether its family has GPUs."""

_GPU_FAMILY = re.compile(r"^ml\.(g|p)\d")


@dataclass(frozen=True)
class ChosenImage:
    """An image.

    Args:
        uri: as the API takes it.
        row: the catalogue's facts; None for the user's own image.
        because: from what the choice follows, for people.
        note: what a person should know of it.
    """

    uri: str
    row: ImageRow | None
    because: str
    note: str | None = None


def choose_image(
    job: Job, framework: Framework | None, candidate: Candidate, catalogue: Catalogue, region: str
) -> ChosenImage:
    """The image to run the job in on one instance type.

    Args:
        framework: None where the job names its image.

    Raises:
        InvalidJob: AWS has no image for it, as far as the catalogue knows.
    """
    if framework is None:
        return ChosenImage(job.image or "", None, "the job's own")
    name = candidate.name
    if candidate.instance is None:
        name = _STAND_INS[_GPU_FAMILY.match(name) is not None]
    found = catalogue.image(framework.name, framework.version, job.kind, name, region)
    note = None
    if found is None and framework.version is not None and not framework.pinned:
        found = catalogue.image(framework.name, None, job.kind, name, region)
        note = f"AWS has no image of {framework.name} {framework.version}, which requirements.txt pins: it is installed at the start"
    if found is None:
        raise _no_image(framework, candidate, job.kind, catalogue, region)
    if found.row.status == "ended":
        note = note or f"AWS no longer patches its image of {framework.name} {found.row.version}"
    return ChosenImage(found.uri, found.row, framework.because, note)


def gpu_problem(image: ChosenImage, candidate: Candidate, catalogue: Catalogue) -> str | None:
    """Why the image's framework has no kernels for the instance type's GPU; None where it has, or nobody knows."""
    model = candidate.instance.gpu_model if candidate.instance else None
    if image.row is None or model is None or image.row.device != "gpu":
        return None
    gpu = catalogue.gpu(model)
    if gpu is not None and gpu.cuda_last and version_key(image.row.cuda or "0") > version_key(gpu.cuda_last):
        return (
            f"{candidate.name}: the image has CUDA {image.row.cuda}, "
            f"and {gpu.cuda_last} was the last that supports its {model}"
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
            f"The catalogue does not know where AWS keeps its images in {region}.",
            remedy="Name one yourself: --image ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG",
        )
    device = "gpu" if candidate.instance and candidate.instance.gpu_count else "cpu"
    versions = {
        row.version
        for row in catalogue.tables.images
        if row.framework == FRAMEWORKS.get(framework.name)
        and (row.job, row.platform) == (JOBS.get(kind), "sagemaker")
        and (candidate.instance is None or (row.device, row.arch) == (device, candidate.instance.arch))
    }
    what = f"{framework.name} {framework.version or ''}".strip()
    have = ", ".join(sorted(versions, key=version_key, reverse=True)[:8])
    return InvalidJob(
        f"AWS has no {device} image of {what} for {kind} jobs on {candidate.name}, as far as the catalogue knows.",
        remedy=f"It has: {have}. Set --framework-version to one of them, or name your own with --image."
        if have
        else "Name your own with --image.",
    )
