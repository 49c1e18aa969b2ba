"""GPUs on the PCI bus, and their device files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import NO_GPU, Check, Layer
from gpuproof.doctor.gpu_names import pci_gpu_name
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.remedies import START_CONTAINER_WITH_GPUS
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.driver import DriverFiles
from gpuproof.util.humanize import join_words, pluralize


@dataclass(frozen=True)
class Reading:
    """PCI bus and device files.

    Args:
        nvml_gpus: number of GPUs that NVML lists, which can exist without PCI devices.
    """

    files: DriverFiles
    nvml_gpus: int = 0


def read(machine: Machine) -> Reading:
    """Read the bus, the device files and NVML's count."""
    return Reading(machine.files, len(machine.nvml.gpus))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D101 no GPU, D102 no device files, D103 too few device files, D104 no permission to open them."""
    files = reading.files
    if files.wsl or (reading.nvml_gpus and not files.forbidden):
        return
    if not files.pci and not files.device_files:
        yield _no_gpu(files)
        return
    if files.forbidden:
        yield Finding(
            "D104",
            Severity.ERROR,
            f"This user has no permission to open {join_words(files.forbidden)}: CUDA finds no device.",
            tuple(f"{name}: no read and write permission" for name in files.forbidden),
            "Add the user to the group that owns them (`ls -l /dev/nvidia*` shows it; often video), and log in again.",
        )
        return
    if not files.loaded:
        return  # without the module there are no device files: the driver layer reports it
    on_bus = [gpu for gpu in files.pci or () if gpu.driver != "vfio-pci"]
    evidence = (
        *(f"{gpu.address}: {pci_gpu_name(gpu)}, driver {gpu.driver or 'none'}" for gpu in on_bus),
        f"device files: {' '.join(f'/dev/nvidia{n}' for n in files.device_files) or 'none'}",
    )
    if on_bus and not files.device_files:
        yield Finding(
            "D102",
            Severity.ERROR,
            f"{pluralize(len(on_bus), 'NVIDIA GPU')} on the PCI bus and the kernel module is loaded, but there is no "
            f"/dev/nvidia0{': this container was started without GPUs' if files.container else ''}.",
            evidence,
            START_CONTAINER_WITH_GPUS
            if files.container
            else "sudo nvidia-modprobe -c=0 -u (or run nvidia-smi once as root).",
        )
    elif len(files.device_files) < len(on_bus) and not files.container:
        yield Finding(
            "D103",
            Severity.WARNING,
            f"{pluralize(len(on_bus), 'NVIDIA GPU')} on the PCI bus, but device files for only {len(files.device_files)}.",
            evidence,
            "`sudo dmesg | grep -i nvrm` shows which GPU the driver could not start.",
        )


def summarize(reading: Reading) -> str | None:
    """`1 A10G on the PCI bus`."""
    names = [pci_gpu_name(gpu) for gpu in reading.files.pci or ()]
    if not names:
        return None
    kinds = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
    return f"{join_words(kinds)} on the PCI bus"


def _no_gpu(files: DriverFiles) -> Finding:
    bus = "the PCI bus cannot be read" if files.pci is None else "no NVIDIA GPU on the PCI bus"
    remedy = (
        "Run `gpuproof doctor` on the GPU host itself; `gpuproof gpus` shows which instance types have one."
        if not files.container
        else "If the host has a GPU, start the container with it: docker run --gpus all. Otherwise run this on a GPU host; "
        "`gpuproof gpus` shows which instance types have one."
    )
    return Finding(
        NO_GPU,
        Severity.ERROR,
        "This machine has no NVIDIA GPU, so the layers above the hardware were not checked.",
        (bus, "no /dev/nvidia device file"),
        remedy,
    )


CHECK = Check("GPUs and device files", Layer.HARDWARE, read, evaluate, summarize=summarize)
