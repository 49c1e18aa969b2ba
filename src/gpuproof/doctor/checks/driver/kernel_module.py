"""The driver's kernel module: loaded, and not pushed aside by nouveau."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.driver import DriverFiles


@dataclass(frozen=True)
class Reading:
    """The module as the system's files show it.

    Args:
        answering: whether NVML sees a GPU all the same.
    """

    files: DriverFiles
    answering: bool = False


def read(machine: Machine) -> Reading:
    """The system's files."""
    return Reading(machine.files, bool(machine.nvml.gpus))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D201 the module is not loaded, D202 nouveau has the GPU."""
    files = reading.files
    if reading.answering or files.wsl:
        return
    if files.nouveau and any(gpu.driver == "nouveau" for gpu in files.pci or ()):
        yield Finding(
            "D202",
            Severity.ERROR,
            "nouveau, the open driver for displays, has the GPU: NVIDIA's driver cannot take it, and CUDA needs that.",
            tuple(f"{gpu.address}: driver {gpu.driver}" for gpu in files.pci or ()),
            "echo 'blacklist nouveau' | sudo tee /etc/modprobe.d/no-nouveau.conf; rebuild the initramfs "
            "(sudo dracut --force, or sudo update-initramfs -u), install NVIDIA's driver, reboot.",
        )
    elif files.loaded is False:
        yield _not_loaded(files)


def summarize(reading: Reading) -> str | None:
    """`driver 580.95.05 (open module)`."""
    files = reading.files
    if files.version is None:
        return None
    return f"driver {files.version}" + (f" ({files.flavour} module)" if files.flavour else "")


def _not_loaded(files: DriverFiles) -> Finding:
    evidence = [f"running kernel: {files.kernel or 'unknown'}", "/proc/modules has no nvidia"]
    if files.container:
        message = "NVIDIA's kernel module is not loaded on this container's host, so that no container can use its GPU."
        remedy = "Install or load the driver on the host (sudo modprobe nvidia); on AWS take a GPU AMI."
    elif files.built_for and files.kernel not in files.built_for:
        evidence.append(f"module built for: {', '.join(files.built_for)}")
        message = (
            f"NVIDIA's kernel module is not loaded: it was built for kernel {files.built_for[-1]}, and "
            f"{files.kernel} runs. A kernel upgrade left it behind."
        )
        remedy = "sudo dkms autoinstall (needs the kernel's headers) and sudo modprobe nvidia; or boot the old kernel."
    elif files.built_for:
        message = "NVIDIA's kernel module lies ready for this kernel, but it is not loaded."
        remedy = "sudo modprobe nvidia; if that fails, `sudo dmesg | tail` has the reason."
    elif files.libraries:
        evidence.append(f"driver's libraries: {', '.join(files.libraries)}")
        message = "The driver's libraries are installed, but NVIDIA's kernel module is not loaded."
        remedy = "sudo modprobe nvidia; if that fails, reinstall the driver for this kernel."
    else:
        message = "There is a GPU on the bus, but no NVIDIA driver: its kernel module is neither loaded nor installed."
        remedy = "Take an AMI with the driver (gpuproof gpus show TYPE names some), or install it."
    return Finding("D201", Severity.ERROR, message, tuple(evidence), remedy)


CHECK = Check("kernel module", Layer.DRIVER, read, evaluate, summarize=summarize)
