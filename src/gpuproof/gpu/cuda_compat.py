"""CUDA's forward compatibility libraries: a newer `libcuda.so.1` in the image, for the older driver of the host.

NVIDIA's package `cuda-compat-13-0` has the driver library of branch 580, which also works above the kernel modules of some
older branches, on data center GPUs. It takes effect if its folder is the first in `LD_LIBRARY_PATH` that has a `libcuda.so.1`.
`data/cuda_compat.csv` has the supported pairs:

- `forward-compatibility`: https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html (2026-09), the table of
  "Use the Right CUDA Forward Compatibility Package". It leaves out branches that have reached their end of life since.
- `cuda-images`: `NVIDIA_REQUIRE_CUDA` of the images `nvidia/cuda` of that version, on which AWS's images are built: the NVIDIA
  Container Toolkit starts them on those branches only, and on drivers of that CUDA.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuproof.gpu.driver import read_kernel_module
from gpuproof.util.csv_table import read_package_rows
from gpuproof.util.versions import version_key

FOLDER = "/usr/local/cuda/compat"
"""Where NVIDIA's packages and images have the libraries. AWS's entry points look there, too: scripts/docker/pytorch/entrypoint.sh in
https://github.com/aws/deep-learning-containers."""

PATH_VARIABLE = "LD_LIBRARY_PATH"

_LIBRARY = "libcuda.so.1"
_CONSUMER_GPU = re.compile(r"\b(?:GeForce|TITAN)\b", re.IGNORECASE)
"""GPUs that `NVIDIA_REQUIRE_CUDA` of no image since CUDA 12.5 names: there, the library fails with error 804."""
_LAST_BRANCHES = (
    (re.compile(r"\bK\d{2}\b"), 470),
    (re.compile(r"\b(?:M4|M40|M60|P4|P40|P100|V100)\b"), 580),
)
"""The last driver branch that supports a GPU; the library of a later one fails on it."""


class CompatPackage(NamedTuple):
    """A forward compatibility package.

    Attributes:
        cuda: its CUDA version, such as `13.0`.
        branch: the driver branch of its library, such as 580.
        drivers: the older branches that it extends.
    """

    cuda: str
    branch: int
    drivers: tuple[int, ...]


class DriverLibrary(NamedTuple):
    """The driver library that the script's processes load.

    Attributes:
        driver: version of the host's driver, such as `535.183.01`.
        compat: version of the image's library, such as `580.95.05`, if it takes the place of the host's; else `None`.
        folder: the folder to put first in `LD_LIBRARY_PATH`; `None` without `compat`.
        note: what was decided, and why; `None` if the image has no such library, or needs none.
    """

    driver: str
    compat: str | None = None
    folder: str | None = None
    note: str | None = None


@cache
def compat_packages() -> tuple[CompatPackage, ...]:
    """All packages whose supported drivers are known, the newest first."""
    rows = read_package_rows("gpuproof.gpu", "data/cuda_compat.csv")
    return tuple(
        CompatPackage(
            row["cuda"], int(row["branch"]), tuple(int(branch) for branch in row["drivers"].split())
        )
        for row in rows
    )


def extended_drivers(cuda: str) -> tuple[int, ...]:
    """The driver branches on which CUDA `13.0` runs with its package; empty for a version without one."""
    version = version_key(cuda)[:2]
    return next((row.drivers for row in compat_packages() if version_key(row.cuda) == version), ())


def read_driver_library(root: Path = Path("/")) -> DriverLibrary | None:
    """Decide between the host's driver library and the image's, by the files of this machine; `None` without a driver.

    Args:
        root: the root of the file system, for tests.
    """
    driver, _ = read_kernel_module(root)
    if driver is None:
        return None
    compat = _compat_version(root / FOLDER.lstrip("/"))
    return choose_library(driver, compat, _gpu_names(root)) if compat is not None else DriverLibrary(driver)


def choose_library(driver: str, compat: str, gpus: Sequence[str]) -> DriverLibrary:
    """Decide whether the image's library takes the place of the host's.

    Args:
        driver: version of the host's driver.
        compat: version of the image's library.
        gpus: names of the host's GPUs; empty if unknown, as on machines of AWS, which have data center GPUs only.
    """
    ours, theirs = version_key(compat)[0], version_key(driver)[0]
    if ours <= theirs:
        return DriverLibrary(driver)
    why = _unsupported(ours, theirs, gpus)
    if why is not None:
        return DriverLibrary(
            driver,
            note=f"CUDA: the host's driver {driver} is used, not the image's newer library {compat}: {why}",
        )
    note = (
        f"CUDA: the image's driver library {compat} ({FOLDER}) is used in place of the host's {driver}, which is older "
        "(forward compatibility)"
    )
    return DriverLibrary(driver, compat, FOLDER, note)


def with_folder(environment: Mapping[str, str], folder: str | None) -> dict[str, str]:
    """The environment with a folder first in `LD_LIBRARY_PATH`; unchanged without a folder."""
    if folder is None:
        return dict(environment)
    others = [
        path for path in environment.get(PATH_VARIABLE, "").split(os.pathsep) if path and path != folder
    ]
    return {**environment, PATH_VARIABLE: os.pathsep.join((folder, *others))}


def _unsupported(library: int, driver: int, gpus: Sequence[str]) -> str | None:
    """Why NVIDIA does not support a library of one branch on a driver of another; `None` if it does."""
    package = next((row for row in compat_packages() if row.branch == library), None)
    if package is None or driver not in package.drivers:
        return f"NVIDIA does not support branch {library} on drivers of branch {driver}"
    for name in gpus:
        if _CONSUMER_GPU.search(name):
            return f"NVIDIA supports forward compatibility on data center GPUs only, and this is a {name}"
        if any(pattern.search(name) and library > last for pattern, last in _LAST_BRANCHES):
            return f"branch {library} no longer supports the {name}"
    return None


def _compat_version(folder: Path) -> str | None:
    """The version of the library in a folder, from file names as in `libcuda.so.1 -> libcuda.so.580.95.05`."""
    library = folder / _LIBRARY
    if not library.exists():
        return None
    names = [os.path.basename(os.path.realpath(library)), *sorted(os.listdir(folder))]  # noqa: PTH119, PTH208 - names only
    versions = [name.partition(".so.")[2] for name in names if name.startswith("libcuda.so.")]
    return next((version for version in versions if len(version_key(version)) > 1), None)


def _gpu_names(root: Path) -> list[str]:
    """The GPUs' names as the kernel module has them: `Model: Tesla T4`."""
    names: list[str] = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        names += re.findall(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE)
    return names
