"""What the checks of the frameworks look at: their builds, beside driver and GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from gpuproof.catalogue import Catalogue, Gpu
from gpuproof.doctor.checks.frameworks.builds import InstalledBuild, host_arch, read_builds
from gpuproof.doctor.checks.frameworks.wheel_choice import (
    Surroundings,
    in_words,
    install_command,
    suitable_build,
)
from gpuproof.doctor.checks.gpu_state.cuda_visible_devices import choose
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Severity
from gpuproof.gpu.cuda import CudaDevice, CudaReading
from gpuproof.gpu.framework_probe import TORCH, Packages

COMPANIONS = ("torchvision", "torchaudio")


@dataclass(frozen=True)
class FrameworkStack:
    """The frameworks and what they stand on.

    Args:
        python: the user's interpreter.
        driver: the driver's version, such as `580.95.05`.
        visible: how many GPUs `CUDA_VISIBLE_DEVICES` leaves; `None` where nobody can tell.
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
        """The GPUs that the driver gives, one of each model."""
        return tuple({(one.name, one.capability): one for one in reversed(self.cuda.devices)}.values())

    @property
    def models(self) -> tuple[Gpu, ...]:
        """The same, as far as the catalogue knows them."""
        found = (model_of(self.catalogue, device) for device in self.devices)
        return tuple(gpu for gpu in found if gpu is not None)

    def better(self, build: InstalledBuild) -> str | None:
        """The command that brings a build of the same framework which runs here; `None` where none is known."""
        words = self.better_wheel(build)
        return None if words is None else in_words(words)

    def better_wheel(self, build: InstalledBuild) -> list[str] | None:
        """The same, as arguments for `pip install`."""
        around = Surroundings(host_arch(self.packages), self.cuda.version, self.models, self.packages.python)
        found = suitable_build(self.catalogue, build.framework, build.version, around)
        if found is None:
            return None
        companions = [
            (name, self.packages.versions[name]) for name in COMPANIONS if name in self.packages.versions
        ]
        return install_command(found, build.version, companions if build.framework == TORCH else ())


def read_stack(machine: Machine) -> FrameworkStack | None:
    """Everything at once, shared by the checks; `None` where no framework is installed."""
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
    """How many GPUs a program gets by `CUDA_VISIBLE_DEVICES`; `None` where nobody can tell."""
    value, devices = machine.environment.get("CUDA_VISIBLE_DEVICES"), machine.cuda.devices
    if value is None:
        return len(devices)
    if any(gpu.mig for gpu in machine.nvml.gpus):
        return 0 if value.strip() in ("", "-1") else None
    gpus = machine.nvml.gpus
    return len(choose(value, [gpu.uuid for gpu in gpus] if gpus else [None] * len(devices)).chosen)


def model_of(catalogue: Catalogue, device: CudaDevice) -> Gpu | None:
    """The catalogue's row of a device; `None` for one that AWS does not have."""
    found = catalogue.gpu(device.name)
    if found is not None or not device.memory:
        return found
    # "A100" means several: the memory tells which.
    named = [gpu for gpu in catalogue.tables.gpus.values() if gpu.compute_capability == device.capability]
    close = [gpu for gpu in named if gpu.name.partition("-")[0] in device.name]
    return min(close, key=lambda gpu: abs(gpu.memory_gb * 1e9 - device.memory), default=None)


def severity_of(build: InstalledBuild) -> Severity:
    """An error where the framework is the only one here; where there are two, the job may use the other."""
    return Severity.ERROR if build.alone else Severity.WARNING
