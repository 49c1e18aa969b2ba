"""GPUs on the PCI bus that the driver does not use: wrong kernel module flavor, or a branch without support for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.catalogue import Gpu
from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.gpu_names import pci_gpu_model, pci_gpu_name
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Location, Severity
from gpuproof.gpu.driver import PciGpu
from gpuproof.util.humanize import pluralize


@dataclass(frozen=True)
class Reading:
    """GPUs on the PCI bus that NVML does not list, and the driver.

    Args:
        listed: number of GPUs that NVML lists.
        version: of the kernel module, such as `595.71.05`.
        flavour: `open` or `proprietary`.
    """

    ignored: tuple[tuple[PciGpu, Gpu | None], ...]
    listed: int
    version: str | None
    flavour: str | None


def read(machine: Machine) -> Reading | None:
    """Compare bus and NVML; `None` in a container, which sees its host's bus, and if NVML is not conclusive."""
    files, nvml = machine.files, machine.nvml
    if not files.pci or not files.loaded or files.container or nvml.problem is not None:
        return None
    if nvml.gpus and len(files.device_files) < len(files.pci):
        return None  # a virtual machine with some of its host's GPUs
    listed = {_short(gpu.pci_bus_id) for gpu in nvml.gpus if gpu.pci_bus_id}
    if len(listed) < len(nvml.gpus):
        return None  # a GPU without a bus address can be any of them
    missing = [gpu for gpu in files.pci if gpu.driver != "vfio-pci" and _short(gpu.address) not in listed]
    gpus = machine.catalogue.tables.gpus
    known = tuple((gpu, gpus.get(pci_gpu_model(gpu) or "")) for gpu in missing)
    return Reading(known, len(nvml.gpus), files.version, files.flavour)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D208 the driver does not support the GPU, D209 the driver ignores the GPU for another reason."""
    for pci, gpu in reading.ignored:
        reason, remedy = _unsupported_reason(reading, gpu)
        severity = Severity.WARNING if reading.listed and not reason else Severity.ERROR
        yield Finding(
            "D208" if reason else "D209",
            severity,
            f"The driver does not use {pci_gpu_name(pci)} at {pci.address}"
            + (
                f": {reason}."
                if reason
                else f", although it uses {pluralize(reading.listed, 'other GPU')}."
                if reading.listed
                else ", and no other GPU either."
            ),
            (
                f"{pci.address}: {pci.device_id}, driver {pci.driver or 'none'}",
                f"module {reading.version or 'unknown'} ({reading.flavour or 'unknown'})",
                f"NVML lists {pluralize(reading.listed, 'GPU')}",
            ),
            remedy,
            Location(device=f"PCI {pci.address} ({pci_gpu_name(pci)})"),
        )


def _unsupported_reason(reading: Reading, gpu: Gpu | None) -> tuple[str | None, str]:
    branch = int(reading.version.partition(".")[0]) if reading.version else None
    if gpu and branch and gpu.driver_last and branch > gpu.driver_last:
        return (
            f"{gpu.driver_last} was the last branch for {gpu.architecture}, but {reading.version} is loaded",
            f"Install a driver of branch {gpu.driver_last}.",
        )
    if gpu and branch and gpu.driver_first and branch < gpu.driver_first:
        return (
            f"{gpu.architecture} needs branch {gpu.driver_first} or later, but {reading.version} is loaded",
            f"Install a driver of branch {gpu.driver_first} or later.",
        )
    if gpu and reading.flavour and gpu.kernel_module not in ("either", reading.flavour):
        return (
            f"{gpu.architecture} needs the {gpu.kernel_module} kernel module, but the {reading.flavour} one is loaded",
            f"Install the {gpu.kernel_module} kernel module of the driver.",
        )
    return (
        None,
        "`sudo dmesg | grep -iE 'nvrm|xid'` shows the reason; if it persists, stop and start the instance.",
    )


def _short(address: str) -> str:
    """`0000:00:1e.0` for NVML's `00000000:00:1E.0`."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


CHECK = Check("supported GPUs", Layer.DRIVER, read, evaluate)
