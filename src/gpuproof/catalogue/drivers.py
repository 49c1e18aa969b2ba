"""Minimum driver versions for a CUDA version."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from gpuproof.catalogue.model import CudaDriver, Gpu
from gpuproof.util.versions import version_key


class DriverRequirement(NamedTuple):
    """The Linux drivers that support one CUDA version.

    Attributes:
        cuda: as queried, such as `12.9`.
        minimum: the oldest driver that runs binaries built with it, by NVIDIA's minor version compatibility.
        toolkit: the driver released with it, needed to compile kernels from PTX. None if only the major version is in
            the table.
        source: key into the source table.
    """

    cuda: str
    minimum: str
    toolkit: str | None
    source: str

    def allows(self, driver: str, *, ptx: bool = False) -> bool:
        """Whether a driver such as `580.95.05` is new enough; with `ptx`, also to compile PTX."""
        floor = self.toolkit if ptx and self.toolkit else self.minimum
        return version_key(driver) >= version_key(floor)


def driver_floor(toolkits: Sequence[CudaDriver], cuda: str) -> DriverRequirement | None:
    """Returns the drivers for `12.9`, `12.9.1` or `cu129`; None for an unknown major version.

    Source: NVIDIA CUDA Toolkit release notes, table "CUDA Toolkit and Corresponding Driver Versions".
    """
    version = _parse_version(cuda)
    if version is None:
        return None
    major, minor, update = version
    exact = [row for row in toolkits if row.cuda == f"{major}.{minor}" and row.update <= update]
    if exact:
        row = max(exact, key=lambda row: row.update)
        return DriverRequirement(cuda, row.minimum_driver, row.driver, row.source)
    same_major = [row for row in toolkits if row.cuda.startswith(f"{major}.")]
    if not same_major or major < 11:
        return None
    # From CUDA 11 on, one minimum applies to a whole major version.
    return DriverRequirement(cuda, same_major[0].minimum_driver, None, same_major[0].source)


def gpu_mismatch(driver: str, gpu: Gpu) -> Literal["too-old", "too-new"] | None:
    """Whether a driver, such as `580.95.05` or `580`, is too old for a GPU or no longer supports it; None if neither is known."""
    branch = version_key(driver)[0] if driver else None
    if branch is None:
        return None
    if gpu.driver_first is not None and branch < gpu.driver_first:
        return "too-old"
    return "too-new" if gpu.driver_last is not None and branch > gpu.driver_last else None


def _parse_version(cuda: str) -> tuple[int, int, int] | None:
    if match := re.fullmatch(r"cu(\d+)(\d)", cuda.strip()):
        return int(match[1]), int(match[2]), 0
    if match := re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?", cuda.strip()):
        return int(match[1]), int(match[2]), int(match[3] or 0)
    return None
