"""The driver's kernel module: whether it is loaded, and not replaced by nouveau."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.driver import DriverFiles


@dataclass(frozen=True)
class Reading:
    """The module according to the system's files.

    Args:
        nvml_works: whether NVML lists a GPU anyway.
    """

    files: DriverFiles
    nvml_works: bool = False


def read(machine: Machine) -> Reading:
    """Read the system's files."""
    return Reading(machine.files, bool(machine.nvml.gpus))


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D201 the module is not loaded, D202 nouveau drives the GPU."""
    files = reading.files
    if reading.nvml_works or files.wsl:
        return
    if files.display_driver:
        yield Finding(
            "D202",
            Severity.ERROR,
            f"The open-source display driver {files.display_driver} drives the GPU, so NVIDIA's driver cannot, and CUDA needs it.",
            tuple(f"{gpu.address}: driver {gpu.driver}" for gpu in files.pci or ()),
            f"echo 'blacklist {files.display_driver}' | sudo tee /etc/modprobe.d/no-nouveau.conf; rebuild the initramfs "
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
        message = (
            "NVIDIA's kernel module is not loaded on this container's host, so no container can use the GPU."
        )
        remedy = "Install or load the driver on the host (sudo modprobe nvidia); on AWS use a GPU AMI."
    elif files.built_for and files.kernel not in files.built_for:
        evidence.append(f"module built for: {', '.join(files.built_for)}")
        message = (
            f"NVIDIA's kernel module is not loaded: it was built for kernel {files.built_for[-1]}, but "
            f"{files.kernel} is running. The kernel was upgraded without it."
        )
        remedy = "sudo dkms autoinstall (needs the kernel headers) and sudo modprobe nvidia; or boot the old kernel."
    elif files.built_for:
        message = "NVIDIA's kernel module is installed for this kernel, but not loaded."
        remedy = "sudo modprobe nvidia; if that fails, `sudo dmesg | tail` shows the reason."
    elif files.libraries:
        evidence.append(f"driver's libraries: {', '.join(files.libraries)}")
        message = "The driver's libraries are installed, but NVIDIA's kernel module is not loaded."
        remedy = "sudo modprobe nvidia; if that fails, reinstall the driver for this kernel."
    else:
        message = "There is a GPU on the PCI bus, but no NVIDIA driver: its kernel module is neither loaded nor installed."
        remedy = "Use an AMI with the driver (gpuproof gpus show TYPE lists some), or install the driver."
    return Finding("D201", Severity.ERROR, message, tuple(evidence), remedy)


CHECK = Check("kernel module", Layer.DRIVER, read, evaluate, summarize=summarize)
