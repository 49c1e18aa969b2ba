"""The NVIDIA driver below a container image on SageMaker's inference hosts, and the host image that has the one it needs.

The one table behind `deploy`, `transform`, `check` and `explain`: `data/host_amis.csv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from gpuproof.catalogue.drivers import DriverRequirement
from gpuproof.catalogue.model import Gpu, HostAmi, HostService
from gpuproof.util.versions import version_key

Unfit = Literal["unknown-version", "older-than-gpu", "too-old", "needs-compat"]
"""Why a host image does not suit: the API has no such version; the driver does not know the GPU; it is too old for the
image's CUDA; or the image runs only with CUDA's forward compatibility libraries in it."""

_COMPAT_DRIVER = 535
"""The oldest driver branch that CUDA 13's forward compatibility libraries extend; AWS's containers use them at their start.

Source: autogluon-cloud pull request 270 (2026-09), which runs CUDA 13 images on the 535 hosts of batch transform."""


class HostChoice(NamedTuple):
    """What is known about the host image of a request.

    Attributes:
        host: the host image; None if the API has none of that name, or the default of the family is not documented.
        unfit: why it does not suit the image and the GPU; None if it does, or if that is unknown.
        needed: the oldest driver that the image or the GPU needs, such as `580`.
        better: the host image to name instead; None if no host image suits.
    """

    host: HostAmi | None
    unfit: Unfit | None
    needed: str
    better: HostAmi | None


def named_hosts(rows: Sequence[HostAmi], service: HostService) -> list[HostAmi]:
    """The host images that a request can name, the preferred ones first."""
    found = [row for row in rows if row.service == service and row.version]
    return sorted(found, key=lambda row: (row.driver, not row.cuda_compat_mounted))


def default_host(rows: Sequence[HostAmi], service: HostService, family: str) -> HostAmi | None:
    """The host image that a family gets if the request names none; None if AWS does not document it."""
    found = (row for row in rows if row.service == service and family in row.default_for)
    return next(found, None)


def fitting_host(
    rows: Sequence[HostAmi], service: HostService, floor: DriverRequirement | None, gpu: Gpu | None
) -> HostAmi | None:
    """The preferred host image whose driver runs the image's CUDA and knows the GPU; None if there is none."""
    branch = _needed_branch(floor, gpu)
    return next((row for row in named_hosts(rows, service) if row.driver >= branch), None)


def best_host(
    rows: Sequence[HostAmi], service: HostService, floor: DriverRequirement | None, gpu: Gpu | None
) -> HostAmi | None:
    """The host image to name: one that fits, or else the newest, if CUDA's compatibility libraries extend its driver.

    Returns:
        None if the driver of no host image knows the GPU, or can be extended.
    """
    if (host := fitting_host(rows, service, floor, gpu)) is not None:
        return host
    hosts = named_hosts(rows, service)
    usable = hosts and hosts[-1].driver >= max(_COMPAT_DRIVER, (gpu and gpu.driver_first) or 0)
    return hosts[-1] if usable else None


def judge_host(
    rows: Sequence[HostAmi],
    service: HostService,
    family: str,
    floor: DriverRequirement | None,
    gpu: Gpu | None,
    version: str | None,
) -> HostChoice:
    """Whether the host image of a request suits a container image and a GPU.

    Args:
        family: of the instance type, such as `g5`.
        floor: the drivers that the image's CUDA needs; None if its CUDA is unknown.
        version: the version that the request names; None for SageMaker's default.
    """
    hosts = named_hosts(rows, service)
    better = best_host(rows, service, floor, gpu)
    branch = _needed_branch(floor, gpu)
    if version is not None:
        host = next((row for row in hosts if row.version == version), None)
        if host is None:
            return HostChoice(None, "unknown-version", str(branch), better)
    else:
        host = default_host(rows, service, family)
    if host is None or host.driver >= branch:
        return HostChoice(host, None, str(branch), better)
    if gpu is not None and gpu.driver_first is not None and host.driver < gpu.driver_first:
        return HostChoice(host, "older-than-gpu", str(gpu.driver_first), better)
    if host.driver >= _COMPAT_DRIVER:
        return HostChoice(host, "needs-compat" if host != better else None, str(branch), better)
    # AWS's images with CUDA 12 run on the 470 hosts, with libraries that they contain.
    return HostChoice(host, "too-old" if branch > _COMPAT_DRIVER else None, str(branch), better)


def _needed_branch(floor: DriverRequirement | None, gpu: Gpu | None) -> int:
    """The oldest driver branch that runs the image's CUDA and knows the GPU; 0 if both are unknown."""
    of_image = version_key(floor.minimum)[0] if floor is not None else 0
    of_gpu = gpu.driver_first if gpu is not None and gpu.driver_first is not None else 0
    return max(of_image, of_gpu)
