"""The frameworks' builds in the user's interpreter: as they say themselves, or by the catalogue where not imported."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from gpuproof.catalogue import Build, Catalogue
from gpuproof.doctor.machine import Machine
from gpuproof.gpu.framework_probe import TENSORFLOW, TORCH, FrameworkReading, Packages

NAMES = {TORCH: "PyTorch", TENSORFLOW: "TensorFlow"}
_DEBIAN_ARCH = {"aarch64": "arm64"}


@dataclass(frozen=True)
class InstalledBuild:
    """One framework's build.

    Args:
        framework: `torch` or `tensorflow`.
        version: with its local part: `2.11.0+cu126`.
        cpu_only: whether it has no GPU kernels at all; `None` where nobody knows.
        cuda: what it was built with, such as `12.6`.
        cudnn: likewise, such as `9.3`.
        architectures: what it carries: `sm_80`, `compute_90`.
        row: the catalogue's row.
        said: what it said itself; `None` where it was not imported.
        alone: whether it is the only framework in its interpreter, so that it is surely the one meant.
    """

    framework: str
    version: str
    cpu_only: bool | None
    cuda: str | None
    cudnn: str | None
    architectures: tuple[str, ...]
    row: Build | None
    said: FrameworkReading | None
    alone: bool = True

    def __str__(self) -> str:
        return f"{NAMES[self.framework]} {self.version}"

    @property
    def short(self) -> str:
        """The version without its local part."""
        return self.version.partition("+")[0]

    @property
    def works(self) -> bool:
        """Whether it gives GPUs: then no table may say otherwise."""
        return bool(self.said and self.said.devices)


def read_builds(machine: Machine) -> tuple[InstalledBuild, ...]:
    """Every framework that is installed and not broken; imports them unless the machine is to be asked quickly."""
    packages = machine.packages
    installed = [(TORCH, packages.torch), (TENSORFLOW, packages.tensorflow)]
    readings = {TORCH: lambda: machine.torch, TENSORFLOW: lambda: machine.tensorflow}
    named = [(name, version) for name, version in installed if version]
    with ThreadPoolExecutor(2) as pool:  # each import takes seconds
        started = [pool.submit(readings[name]) for name, _ in named]
        said = [future.result() for future in started]
    return tuple(
        describe(machine, name, version, reading, alone=len(named) == 1)
        for (name, version), reading in zip(named, said, strict=True)
    )


def describe(
    machine: Machine, name: str, version: str, said: FrameworkReading | None, *, alone: bool
) -> InstalledBuild:
    """One build, from what it says and what the catalogue knows."""
    packages = machine.packages
    row = find_row(machine.catalogue, packages, name)
    if said is not None and said.version is not None:
        return InstalledBuild(
            name,
            version,
            cpu_only=said.cuda is None and not said.rocm,
            cuda=said.cuda,
            cudnn=said.cudnn or (row.cudnn if row else None) or None,
            architectures=said.architectures,
            row=row,
            said=said,
            alone=alone,
        )
    cpu_only = cpu_by_name(name, packages, row)
    return InstalledBuild(
        name,
        version,
        cpu_only=cpu_only,
        cuda=None if cpu_only or row is None else row.cuda or None,
        cudnn=None if cpu_only or row is None else row.cudnn or None,
        architectures=() if cpu_only or row is None else row.architectures,
        row=row,
        said=said,
        alone=alone,
    )


def find_row(catalogue: Catalogue, packages: Packages, name: str) -> Build | None:
    """The catalogue's row of an installed framework; `None` for what it does not know, such as Conda's own builds."""
    version = packages.torch if name == TORCH else packages.tensorflow
    if version is None or packages.from_conda(name):
        return None
    return catalogue.build(f"{name}=={version}", host_arch(packages))


def cpu_by_name(name: str, packages: Packages, row: Build | None) -> bool | None:
    """Whether names alone tell that a build has no GPU kernels: `2.6.0+cpu`, `tensorflow-cpu`, TensorFlow on Arm."""
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
    """As the catalogue writes it: `x86_64`, `arm64`."""
    return _DEBIAN_ARCH.get(packages.arch, packages.arch)
