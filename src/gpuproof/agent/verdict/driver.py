"""Judges whether the driver is why no GPU was used: it is too old for the CUDA that the framework was built with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuproof.gpu.cuda_compat import FOLDER, compat_packages, extended_drivers
from gpuproof.util.versions import version_key

_CAUSES = {"torch": "torch-driver-too-old", "tensorflow": "cuda-driver-insufficient"}
"""The codes of `gpuproof explain` for what the frameworks write into their logs then."""
_FLOORS = {11: 450, 12: 525, 13: 580}
"""The oldest driver branch of each CUDA major version: NVIDIA CUDA Toolkit release notes, table of drivers."""


@dataclass(frozen=True)
class DriverProblem:
    """A driver that is too old.

    Args:
        cause: the code of the cause, as in `gpuproof explain`.
        reason: what is wrong, in one sentence.
        remedy: what to do.
    """

    cause: str
    reason: str
    remedy: str


def driver_problem(
    built: Mapping[str, str], runs: tuple[int, int] | None, driver: str | None, versions: Mapping[str, str]
) -> DriverProblem | None:
    """The problem, if no framework that the script may use runs on the driver; `None` if one does, or if that is unknown.

    Since CUDA 11, a driver runs every minor version of its major version and all older ones:
    https://docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html

    Args:
        built: CUDA that each framework was built with: `{"torch": "13.3"}`.
        runs: the newest CUDA of the driver library that the script loads, such as (12, 2).
        driver: version of the host's driver.
        versions: of the frameworks.
    """
    if not built or runs is None:
        return None
    if any(version_key(cuda)[0] <= runs[0] for cuda in built.values()):
        return None
    name, cuda = next(iter(built.items()))
    framework = f"{name} {versions[name]}" if versions.get(name) else name
    reason = (
        f"The host's NVIDIA driver {driver or ''} is too old for {framework}: it runs CUDA up to {runs[0]}.{runs[1]}, and "
        f"this build has CUDA {cuda}, so it found no GPU."
    ).replace("driver  is", "driver is")
    return DriverProblem(_CAUSES.get(name, "cuda-driver-insufficient"), reason, _remedy(cuda, runs, driver))


def _remedy(cuda: str, runs: tuple[int, int], driver: str | None) -> str:
    branch = version_key(driver)[0] if driver else None
    ways = [f"an image or a build with CUDA {runs[0]} (--framework-version, --image)"]
    if branch is not None and branch in extended_drivers(cuda):
        ways.append(f"an image that has NVIDIA's compatibility library in {FOLDER}")
    elif branch is not None and (newest := _newest_extended(branch)) is not None:
        ways.append(f"an image with CUDA up to {newest} that has NVIDIA's compatibility library in {FOLDER}")
    floor = _FLOORS.get(version_key(cuda)[0])
    if floor is not None:
        ways.append(
            f"hosts with driver {floor} or later (on EC2 another AMI; endpoints and batch transform: InferenceAmiVersion, TransformAmiVersion)"
        )
    return f"Use {', or '.join(ways)}."


def _newest_extended(branch: int) -> str | None:
    return next((package.cuda for package in compat_packages() if branch in package.drivers), None)
