"""`FrameworkStack`, the reading of the framework checks: builds, driver and GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.catalogue import Catalogue, Gpu
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild, host_arch, read_builds
from gpuproof.doctor.checks.frameworks.wheel_choice import (
    WheelTarget,
    find_suitable_build,
    pip_arguments,
    pip_command,
)
from gpuproof.doctor.checks.gpu_state.cuda_visible_devices import parse_visible_devices
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Severity
from gpuproof.gpu.cuda import CudaDevice, CudaReading
from gpuproof.gpu.framework_probe import TORCH, Packages

COMPANIONS = ("torchvision", "torchaudio")


@dataclass(frozen=True)
class FrameworkStack:
    """The installed frameworks, with driver and GPUs.

    Args:
        driver: version of the driver, such as `580.95.05`.
        visible: number of GPUs that `CUDA_VISIBLE_DEVICES` leaves; `None` if unknown.
    """

    builds: tuple[InstalledBuild, ...]
    packages: Packages
    cuda: CudaReading
    driver: str | None
    visible: int | None
    catalogue: Catalogue
    python: str = "python"

    @property
    def devices(self) -> tuple[CudaDevice, ...]:
        """The GPUs that the driver lists, one per model."""
        return tuple(
            {(device.name, device.capability): device for device in reversed(self.cuda.devices)}.values()
        )

    @property
    def models(self) -> tuple[Gpu, ...]:
        """The GPU models that the catalogue has."""
        found = (find_gpu(self.catalogue, device) for device in self.devices)
        return tuple(gpu for gpu in found if gpu is not None)

    def suggested_command(self, build: InstalledBuild) -> str | None:
        """The pip command that installs a suitable build of the same framework; `None` if none is known."""
        arguments = self.suggested_packages(build)
        return None if arguments is None else pip_command(arguments)

    def suggested_packages(self, build: InstalledBuild) -> list[str] | None:
        """The same as `suggested_command`, as arguments for `pip install`."""
        target = WheelTarget(host_arch(self.packages), self.cuda.version, self.models, self.packages.python)
        found = find_suitable_build(self.catalogue, build.framework, build.version, target)
        if found is None:
            return None
        companions = [
            (name, self.packages.versions[name]) for name in COMPANIONS if name in self.packages.versions
        ]
        return pip_arguments(found, build.version, companions if build.framework == TORCH else ())


def read_stack(machine: Machine) -> FrameworkStack | None:
    """Read frameworks, driver and GPUs; `None` if no framework is installed."""
    builds = read_builds(machine)
    if not builds:
        return None
    nvml = machine.nvml
    return FrameworkStack(
        builds,
        machine.packages,
        machine.cuda,
        nvml.driver or machine.files.version,
        visible_gpus(machine),
        machine.catalogue,
        machine.python,
    )


def visible_gpus(machine: Machine) -> int | None:
    """Number of GPUs that a program sees with the current `CUDA_VISIBLE_DEVICES`; `None` if unknown."""
    value, devices = machine.environment.get("CUDA_VISIBLE_DEVICES"), machine.cuda.devices
    if value is None:
        return len(devices)
    if any(gpu.mig for gpu in machine.nvml.gpus):
        return 0 if value.strip() in ("", "-1") else None
    gpus = machine.nvml.gpus
    return len(
        parse_visible_devices(value, [gpu.uuid for gpu in gpus] if gpus else [None] * len(devices)).indexes
    )


def find_gpu(catalogue: Catalogue, device: CudaDevice) -> Gpu | None:
    """The catalogue's entry for a device; `None` for one that AWS does not offer."""
    found = catalogue.gpu(device.name)
    if found is not None or not device.memory:
        return found
    # Several models are called "A100": compare the memory.
    named = [gpu for gpu in catalogue.tables.gpus.values() if gpu.compute_capability == device.capability]
    close = [gpu for gpu in named if gpu.name.partition("-")[0] in device.name]
    return min(close, key=lambda gpu: abs(gpu.memory_gb * 1e9 - device.memory), default=None)


def severity_of(build: InstalledBuild) -> Severity:
    """An error if this is the only framework; with two, the job may use the other one."""
    return Severity.ERROR if build.only_framework else Severity.WARNING
