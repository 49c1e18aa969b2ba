"""Whether the driver drives every GPU on the bus: the right kind of module, of a branch that still knows the GPU."""

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
    """A GPU that is on the bus and not in NVML, beside what drives it.

    Args:
        ignored: GPUs on the bus that NVML does not list, with what the catalogue knows of them.
        listed: how many NVML lists.
        version: the module's version, such as `595.71.05`.
        flavour: `open` or `proprietary`.
    """

    ignored: tuple[tuple[PciGpu, Gpu | None], ...]
    listed: int
    version: str | None
    flavour: str | None


def read(machine: Machine) -> Reading | None:
    """Bus against NVML; `None` in a container, which sees the bus of its host, and where NVML cannot tell."""
    files, nvml = machine.files, machine.nvml
    if not files.pci or not files.loaded or files.container or nvml.problem is not None:
        return None
    if nvml.gpus and len(files.device_files) < len(files.pci):
        return None  # somebody gave this machine some of the GPUs of another
    listed = {_short(gpu.pci_bus_id) for gpu in nvml.gpus if gpu.pci_bus_id}
    if len(listed) < len(nvml.gpus):
        return None  # a GPU that does not say where it is may be any of them
    missing = [gpu for gpu in files.pci if gpu.driver != "vfio-pci" and _short(gpu.address) not in listed]
    gpus = machine.catalogue.tables.gpus
    known = tuple((gpu, gpus.get(pci_gpu_model(gpu) or "")) for gpu in missing)
    return Reading(known, len(nvml.gpus), files.version, files.flavour)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D208 a driver that does not know the GPU, D209 a GPU that the driver leaves out for another reason."""
    for pci, gpu in reading.ignored:
        why, remedy = _why(reading, gpu)
        severity = Severity.WARNING if reading.listed and not why else Severity.ERROR
        yield Finding(
            "D208" if why else "D209",
            severity,
            f"The driver does not drive {pci_gpu_name(pci)} at {pci.address}"
            + (
                f": {why}."
                if why
                else f", although it drives {pluralize(reading.listed, 'other GPU')}."
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


def _why(reading: Reading, gpu: Gpu | None) -> tuple[str | None, str]:
    branch = int(reading.version.partition(".")[0]) if reading.version else None
    if gpu and branch and gpu.driver_last and branch > gpu.driver_last:
        return (
            f"{gpu.driver_last} was the last branch for {gpu.architecture}, and {reading.version} is loaded",
            f"Install a driver of branch {gpu.driver_last}.",
        )
    if gpu and branch and gpu.driver_first and branch < gpu.driver_first:
        return (
            f"{gpu.architecture} needs branch {gpu.driver_first} or later, and {reading.version} is loaded",
            f"Install a driver of branch {gpu.driver_first} or later.",
        )
    if gpu and reading.flavour and gpu.kernel_module not in ("either", reading.flavour):
        return (
            f"{gpu.architecture} needs the {gpu.kernel_module} kernel module, and the {reading.flavour} one is loaded",
            f"Install the {gpu.kernel_module} flavour of the driver's kernel module.",
        )
    return None, "`sudo dmesg | grep -iE 'nvrm|xid'` has the reason; stop and start the instance if it stays."


def _short(address: str) -> str:
    """`0000:00:1e.0` of NVML's `00000000:00:1E.0`."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


CHECK = Check("GPUs that the driver drives", Layer.DRIVER, read, evaluate)
