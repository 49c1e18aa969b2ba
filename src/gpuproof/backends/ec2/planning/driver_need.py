"""Determines the oldest NVIDIA driver on which a framework can use a GPU."""

from __future__ import annotations

from gpuproof.backends.ec2.target import DriverNeed
from gpuproof.catalogue import Catalogue
from gpuproof.catalogue.builds import parse_requirement
from gpuproof.util.versions import version_key


def driver_need(requirement: str, arch: str, catalogue: Catalogue) -> DriverNeed | None:
    """The oldest driver for `torch==2.9`; None if it is unknown, or if no GPU build exists.

    The version's builds for several CUDA versions are not told apart: the least demanding one counts, so that no driver is
    rejected that may be new enough.
    """
    parsed = parse_requirement(requirement)
    if parsed is None or not parsed[1]:
        return None
    framework, version, _ = parsed
    needs: list[DriverNeed] = []
    for build in catalogue.tables.builds:
        if (build.framework, build.version, build.arch) != (
            framework,
            version,
            arch,
        ) or build.device == "cpu":
            continue
        floor = catalogue.driver_floor(build.cuda) if build.cuda else None
        if floor is None:
            return None
        needs.append(DriverNeed(floor.minimum, f"{framework} {version} (CUDA {build.cuda})"))
    return min(needs, key=lambda need: version_key(need.driver), default=None)


def cuda_need(cuda: str, catalogue: Catalogue) -> DriverNeed | None:
    """The oldest driver for a container image with a version of CUDA; None if that is unknown."""
    floor = catalogue.driver_floor(cuda) if cuda else None
    return None if floor is None else DriverNeed(floor.minimum, f"the image's CUDA {cuda}")
