"""NVML, the library through which `nvidia-smi` and GPUproof monitor GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.gpu_names import gpu_location
from gpuproof.doctor.machine import Machine
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.cuda import NvmlReading
from gpuproof.gpu.driver import DriverFiles
from gpuproof.util.humanize import format_bytes

NOT_LOADED = 9
MISMATCH = 18

DRIVER_HANGS = (
    "See `sudo dmesg | grep -iE 'nvrm|xid'`; reboot, and if it comes back, stop and start the instance, "
    "which moves it to other hardware."
)


@dataclass(frozen=True)
class Reading:
    """NVML's answer, with the driver's files, which explain failures.

    Args:
        cuda_works: whether the CUDA driver initializes anyway.
    """

    nvml: NvmlReading
    files: DriverFiles
    cuda_works: bool = False


def read(machine: Machine) -> Reading:
    """Query NVML, and if it is missing the CUDA driver."""
    nvml = machine.nvml
    return Reading(nvml, machine.files, nvml.library_missing and machine.cuda.init == 0)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D203 library and module differ, D204 no NVML, D205 a lost GPU, D206 NVML fails, D210 it hangs or crashes."""
    nvml, files = reading.nvml, reading.files
    for index, reason in nvml.lost:
        yield Finding(
            "D205",
            Severity.ERROR,
            f"GPU {index} does not respond: {reason}.",
            (f"NVML on GPU {index}: {reason}",),
            "Reboot; if it comes back, stop and start the instance, which moves it to other hardware.",
            gpu_location(index, None),
        )
    if nvml.problem is None or files.loaded is False or files.display_driver:
        return  # without the module everything fails, and the kernel module check reports it
    if nvml.code is None:
        what = "hangs" if nvml.hung else "crashes"
        yield Finding(
            "D210",
            Severity.ERROR,
            f"The driver {what} when NVML is used, and so do nvidia-smi and every CUDA program.",
            (f"NVML {nvml.problem}",),
            DRIVER_HANGS,
        )
    elif nvml.code == MISMATCH:
        yield _mismatch(files)
    elif nvml.library_missing:
        yield _missing(reading)
    else:
        yield Finding(
            "D206",
            Severity.ERROR,
            f"NVML does not initialize{' although the kernel module is loaded' if files.loaded else ''}: {nvml.problem}.",
            (f"nvmlInit: code {nvml.code}",),
            "Reboot; if that does not help, reinstall the driver.",
        )


def summarize(reading: Reading) -> str | None:
    """`NVIDIA A10G, 22.5 GiB`, with a count for several."""
    kinds: dict[str, int] = {}
    for gpu in reading.nvml.gpus:
        memory = f", {format_bytes(gpu.memory_total)}" if gpu.memory_total else ""
        kind = f"{gpu.name or 'unknown GPU'}{memory}"
        kinds[kind] = kinds.get(kind, 0) + 1
    return "; ".join(kind if count == 1 else f"{count} x {kind}" for kind, count in kinds.items()) or None


def _mismatch(files: DriverFiles) -> Finding:
    library = files.libraries[-1] if files.libraries else None
    versions = f" ({files.version} against {library})" if library and files.version != library else ""
    return Finding(
        "D203",
        Severity.ERROR,
        f"The driver was updated but not reloaded: kernel module and libraries differ{versions}. Neither "
        "nvidia-smi nor CUDA works until they match.",
        (
            f"loaded module: {files.version or 'unknown'}",
            f"libraries: {', '.join(files.libraries) or 'unknown'}",
        ),
        "sudo reboot. Restart a container, so that it gets the host's new libraries.",
    )


def _missing(reading: Reading) -> Finding:
    container = reading.files.container
    if reading.cuda_works:
        return Finding(
            "D204",
            Severity.WARNING,
            "CUDA works, but NVML (libnvidia-ml.so.1) is missing: neither nvidia-smi nor GPUproof's verdict can "
            "measure the GPU.",
            ("libnvidia-ml.so.1 cannot be loaded",),
            "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility."
            if container
            else "Install the driver's utilities (nvidia-utils, nvidia-driver-cuda).",
        )
    return Finding(
        "D204",
        Severity.ERROR,
        ("The kernel module is loaded, but the" if reading.files.loaded else "The")
        + " driver's libraries are missing: libnvidia-ml.so.1 cannot be loaded"
        + (", so this container was started without the NVIDIA runtime." if container else "."),
        (
            f"loaded module: {reading.files.version or 'unknown'}"
            if reading.files.loaded
            else "kernel module: unknown, since /proc/modules cannot be read",
            "libnvidia-ml.so.1 cannot be loaded",
        ),
        "Start the container with --gpus all, which adds the driver's libraries."
        if container
        else f"Install the libraries of driver {reading.files.version}."
        if reading.files.version
        else "Use an AMI with the driver (gpuproof gpus show TYPE lists some), or install the driver.",
    )


CHECK = Check("NVML", Layer.DRIVER, read, evaluate, summarize=summarize)
