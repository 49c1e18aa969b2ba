"""The frameworks' builds in the user's interpreter, as they report them or, if not imported, from the catalogue."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gpuproof.catalogue import Build, Catalogue
from gpuproof.doctor.machine import Machine
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH, FrameworkReading, Packages

FRAMEWORK_NAMES = {TORCH: "PyTorch", TENSORFLOW: "TensorFlow"}
_DEBIAN_ARCH = {"aarch64": "arm64"}


@dataclass(frozen=True)
class InstalledBuild:
    """The installed build of one framework.

    Args:
        framework: `torch` or `tensorflow`.
        version: with its local part, such as `2.11.0+cu126`.
        cpu_only: whether it has no GPU kernels; `None` if unknown.
        cuda: version that it was built with, such as `12.6`.
        cudnn: version that it was built with, such as `9.3`.
        architectures: of its kernels, such as `sm_80` or `compute_90` (PTX).
        reported: what it reports when imported; `None` if it was not imported.
        only_framework: whether its interpreter has no other framework, so the job certainly uses it.
    """

    framework: str
    version: str
    cpu_only: bool | None
    cuda: str | None
    cudnn: str | None
    architectures: tuple[str, ...]
    row: Build | None
    reported: FrameworkReading | None
    only_framework: bool = True

    def __str__(self) -> str:
        return f"{FRAMEWORK_NAMES[self.framework]} {self.version}"

    @property
    def base_version(self) -> str:
        """The version without its local part."""
        return self.version.partition("+")[0]

    @property
    def sees_gpus(self) -> bool:
        """Whether it lists GPUs, which takes precedence over all tables."""
        return bool(self.reported and self.reported.devices)


def read_builds(machine: Machine) -> tuple[InstalledBuild, ...]:
    """Read every installed framework; imports them unless `machine.quick`."""
    packages = machine.packages
    installed = [(TORCH, packages.torch), (TENSORFLOW, packages.tensorflow)]
    readings = {TORCH: lambda: machine.torch, TENSORFLOW: lambda: machine.tensorflow}
    named = [(name, version) for name, version in installed if version]
    with ThreadPoolExecutor(2) as pool:  # each import takes seconds
        started = [pool.submit(readings[name]) for name, _ in named]
        reported = [future.result() for future in started]
    return tuple(
        describe_build(machine, name, version, reading, only_framework=len(named) == 1)
        for (name, version), reading in zip(named, reported, strict=True)
    )


def describe_build(
    machine: Machine, name: str, version: str, reported: FrameworkReading | None, *, only_framework: bool
) -> InstalledBuild:
    """Combine what a framework reports with what the catalogue knows."""
    packages = machine.packages
    row = find_catalogue_build(machine.catalogue, packages, name)
    if reported is not None and reported.version is not None:
        return InstalledBuild(
            name,
            version,
            cpu_only=reported.cuda is None and not reported.rocm,
            cuda=reported.cuda,
            cudnn=reported.cudnn or (row.cudnn if row else None) or None,
            architectures=reported.architectures,
            row=row,
            reported=reported,
            only_framework=only_framework,
        )
    cpu_only = is_cpu_build(name, packages, row)
    return InstalledBuild(
        name,
        version,
        cpu_only=cpu_only,
        cuda=None if cpu_only or row is None else row.cuda or None,
        cudnn=None if cpu_only or row is None else row.cudnn or None,
        architectures=() if cpu_only or row is None else row.architectures,
        row=row,
        reported=reported,
        only_framework=only_framework,
    )


def find_catalogue_build(catalogue: Catalogue, packages: Packages, name: str) -> Build | None:
    """The catalogue's row of an installed framework; `None` if there is none, as for Conda's builds."""
    version = packages.torch if name == TORCH else packages.tensorflow
    if version is None or packages.from_conda(name):
        return None
    return catalogue.build(f"{name}=={version}", host_arch(packages))


def is_cpu_build(name: str, packages: Packages, row: Build | None) -> bool | None:
    """Whether version, package name or catalogue mark a CPU build (`2.6.0+cpu`, `tensorflow-cpu`); `None` if unknown."""
    version = packages.torch if name == TORCH else packages.tensorflow
    local = (version or "").partition("+")[2]
    if name == TORCH and local.startswith("cpu"):
        return True
    if name == TORCH and local.startswith("cu"):
        return False
    if name == TENSORFLOW and "tensorflow-cpu" in packages.versions and "tensorflow" not in packages.versions:
        return True
    return None if row is None else row.device == "cpu"


def host_arch(packages: Packages) -> str:
    """Host architecture as in the catalogue: `x86_64`, `arm64`."""
    return _DEBIAN_ARCH.get(packages.arch, packages.arch)
