"""The NVIDIA driver below a container image on SageMaker's hosts, and the host image that has the one it needs.

The one table behind `run`, `deploy`, `transform`, `check` and `explain`: `data/host_amis.csv`. Which older drivers CUDA's forward
compatibility libraries extend is in `gpuproof.gpu.cuda_compat`; AWS's containers and GPUproof's agent put them first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from gpuproof.catalogue.drivers import DriverRequirement
from gpuproof.catalogue.model import Gpu, HostAmi, HostService, JobKind
from gpuproof.gpu.cuda_compat import extended_drivers
from gpuproof.util.versions import version_key

Unfit = Literal["unknown-version", "older-than-gpu", "too-old", "needs-compat"]
"""Why a host image does not suit: the API has no such version; the driver does not know the GPU; it is too old for the
image's CUDA; or the image runs only with CUDA's forward compatibility libraries in it."""

HOST_SERVICES: Mapping[JobKind, HostService] = {
    "training": "training",
    "processing": "training",
    "endpoint": "endpoint",
    "transform": "transform",
}
"""The hosts of each kind of job. Nothing is documented about those of processing jobs; they are taken for those of training."""

_OLDEST_NAMED = 535
"""AWS's images with CUDA 12 run on the 470 hosts without further ado: the libraries that they contain are mounted there."""


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
    return hosts[-1] if hosts and runs_with_compat(hosts[-1].driver, floor, gpu) else None


def runs_with_compat(driver: int, floor: DriverRequirement | None, gpu: Gpu | None) -> bool:
    """Whether an image runs on an older driver branch that knows the GPU, with CUDA's forward compatibility libraries.

    CUDA 13 does so on the 535 hosts of batch transform: autogluon-cloud pull request 270 (2026-09).
    """
    knows_gpu = driver >= (gpu.driver_first if gpu is not None and gpu.driver_first is not None else 0)
    return knows_gpu and floor is not None and driver in extended_drivers(floor.cuda)


def runs_image(
    rows: Sequence[HostAmi],
    service: HostService,
    family: str,
    floor: DriverRequirement | None,
    gpu: Gpu | None,
    seen: int | None = None,
) -> bool:
    """Whether an image runs on every host that a job may get, as far as it is documented.

    Args:
        seen: the driver branch that this account's jobs had on the family; None to go by the documentation.
    """
    if seen is None and named_hosts(rows, service):
        return best_host(rows, service, floor, gpu) is not None
    driver = seen if seen is not None else oldest_driver(rows, service, family, gpu)
    return driver >= _needed_branch(floor, gpu) or runs_with_compat(driver, floor, gpu)


def oldest_driver(rows: Sequence[HostAmi], service: HostService, family: str, gpu: Gpu | None) -> int:
    """The oldest driver branch that a family's hosts may have; 0 if nothing is known.

    A family that is not documented has the oldest of those that are, or the first that knows its GPU.
    """
    if (host := default_host(rows, service, family)) is not None:
        return host.driver
    oldest = min((row.driver for row in rows if row.service == service and row.default_for), default=0)
    return max(oldest, (gpu.driver_first if gpu is not None else None) or 0)


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
    if not runs_with_compat(host.driver, floor, gpu):
        return HostChoice(host, "too-old", str(branch), better)
    needs_compat = host.driver >= _OLDEST_NAMED and host != better
    return HostChoice(host, "needs-compat" if needs_compat else None, str(branch), better)


def _needed_branch(floor: DriverRequirement | None, gpu: Gpu | None) -> int:
    """The oldest driver branch that runs the image's CUDA and knows the GPU; 0 if both are unknown."""
    of_image = version_key(floor.minimum)[0] if floor is not None else 0
    of_gpu = gpu.driver_first if gpu is not None and gpu.driver_first is not None else 0
    return max(of_image, of_gpu)
