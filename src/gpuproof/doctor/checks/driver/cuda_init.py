"""`cuInit`: whether the CUDA driver library loads, starts and gives devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.driver.nvml import HANGS, MISMATCH
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.remedies import START_CONTAINER_WITH_GPUS
from gpuproof.doctor.tables import table
from gpuproof.findings import Finding, Severity
from gpuproof.gpu.cuda import CudaReading, NvmlReading
from gpuproof.gpu.driver import DriverFiles
from gpuproof.util.humanize import pluralize

NO_DEVICE = 100


@dataclass(frozen=True)
class Reading:
    """The CUDA driver's answer, and what explains it."""

    cuda: CudaReading
    nvml: NvmlReading
    files: DriverFiles


def read(machine: Machine) -> Reading:
    """The CUDA driver's answer, with `CUDA_VISIBLE_DEVICES` out of the way."""
    return Reading(machine.cuda, machine.nvml, machine.files)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D207 `cuInit` fails, D210 it hangs or crashes, D212 no libcuda, D213 it gives fewer GPUs than NVML lists."""
    cuda, nvml = reading.cuda, reading.nvml
    if _explained(reading):
        return
    if cuda.problem is not None:
        what = "never answers" if cuda.hung else "breaks off"
        yield Finding(
            "D210",
            Severity.ERROR,
            f"The CUDA driver {what}: every CUDA program would do the same.",
            (f"libcuda {cuda.problem}",),
            HANGS,
        )
    elif cuda.library_error is not None:
        yield _no_library(reading)
    elif cuda.init:
        yield _fails(reading, cuda.init)
    elif len(cuda.devices) < len(nvml.gpus) - len(nvml.lost) and not any(gpu.mig for gpu in nvml.gpus):
        yield Finding(
            "D213",
            Severity.WARNING if cuda.devices else Severity.ERROR,
            f"NVML lists {pluralize(len(nvml.gpus), 'GPU')}, but CUDA gives {len(cuda.devices) or 'none'}.",
            (f"libcuda: {cuda.path or 'unknown'}",),
            "`nvidia-smi -q -d COMPUTE` shows whether one is in prohibited mode; look into `sudo dmesg | grep -i nvrm`.",
        )


def summarize(reading: Reading) -> str | None:
    """`CUDA 13.0`, and whether it comes through cuda-compat."""
    if reading.cuda.version is None or reading.cuda.init != 0:
        return None
    compat = " through cuda-compat" if reading.cuda.compat else ""
    return f"CUDA {'.'.join(map(str, reading.cuda.version))}{compat}"


def _explained(reading: Reading) -> bool:
    """Whether another check of this layer says why nothing of CUDA can work."""
    cuda, nvml, files = reading.cuda, reading.nvml, reading.files
    if (files.loaded is False and not nvml.gpus) or nvml.code == MISMATCH or nvml.hung:
        return True
    ignored = nvml.problem is None and not nvml.gpus and bool(files.pci) and not files.container
    return ignored and cuda.init == NO_DEVICE


def _no_library(reading: Reading) -> Finding:
    error = reading.cuda.library_error or ""
    if not reading.cuda.library_missing:
        message = "libcuda.so.1 is here and does not load: the driver's files are damaged or of another architecture."
        remedy = "Reinstall the driver; in a container remove any libcuda.so.1 that the image itself carries."
    elif reading.files.container:
        message = "The GPU is here, but CUDA's driver library (libcuda.so.1) is not in this container."
        remedy = f"{START_CONTAINER_WITH_GPUS} Set NVIDIA_DRIVER_CAPABILITIES=compute,utility if it is set to less."
    else:
        message = "The GPU is here, but CUDA's driver library (libcuda.so.1) is not installed."
        remedy = "Install the compute part of the driver (libcuda: nvidia-driver-cuda, libnvidia-compute, libcuda1)."
    return Finding("D212", Severity.ERROR, message, (error,), remedy)


def _fails(reading: Reading, code: int) -> Finding:
    row = next((row for row in table("stack/cuda_errors") if int(row["code"]) == code), None)
    cuda, files = reading.cuda, reading.files
    evidence = [
        f"cuInit: {code}" + (f" ({row['name']})" if row else ""),
        f"libcuda: {cuda.path or 'unknown'}",
    ]
    if not files.uvm and not files.wsl:
        evidence.append("/dev/nvidia-uvm is not there")
    cause = row["cause"] if row else "The driver gives no reason that is known here."
    return Finding(
        "D207",
        Severity.ERROR,
        f"CUDA does not start (cuInit gives {row['name'] if row else code}). {cause}",
        tuple(evidence),
        row["remedy"] if row else "Reboot; if that does not help, reinstall the driver.",
    )


CHECK = Check("cuInit", Layer.DRIVER, read, evaluate, summarize=summarize)
