"""`cuInit`: whether the CUDA driver library loads, initializes and lists all GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.checks.driver.nvml import DRIVER_HANGS, MISMATCH
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
    """The CUDA driver's answer, with NVML's and the driver's files, which explain failures."""

    cuda: CudaReading
    nvml: NvmlReading
    files: DriverFiles


def read(machine: Machine) -> Reading:
    """Query the CUDA driver, without the effect of `CUDA_VISIBLE_DEVICES`."""
    return Reading(machine.cuda, machine.nvml, machine.files)


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D207 `cuInit` fails, D210 it hangs or crashes, D212 no libcuda, D213 it lists fewer GPUs than NVML."""
    cuda, nvml = reading.cuda, reading.nvml
    if _is_explained(reading):
        return
    if cuda.problem is not None:
        what = "hangs" if cuda.hung else "crashes"
        yield Finding(
            "D210",
            Severity.ERROR,
            f"The CUDA driver {what} during initialization, and so does every CUDA program.",
            (f"libcuda {cuda.problem}",),
            DRIVER_HANGS,
        )
    elif cuda.library_error is not None:
        yield _library_unusable(reading)
    elif cuda.init:
        yield _init_failed(reading, cuda.init)
    elif len(cuda.devices) < len(nvml.gpus) - len(nvml.lost) and not any(gpu.mig for gpu in nvml.gpus):
        yield Finding(
            "D213",
            Severity.WARNING if cuda.devices else Severity.ERROR,
            f"NVML lists {pluralize(len(nvml.gpus), 'GPU')}, but CUDA lists {len(cuda.devices) or 'none'}.",
            (f"libcuda: {cuda.path or 'unknown'}",),
            "`nvidia-smi -q -d COMPUTE` shows whether one is in prohibited mode; see also `sudo dmesg | grep -i nvrm`.",
        )


def summarize(reading: Reading) -> str | None:
    """`CUDA 13.0`, and whether it comes from cuda-compat."""
    if reading.cuda.version is None or reading.cuda.init != 0:
        return None
    compat = " from cuda-compat" if reading.cuda.compat else ""
    return f"CUDA {'.'.join(map(str, reading.cuda.version))}{compat}"


def _is_explained(reading: Reading) -> bool:
    """Whether another check of this layer reports why CUDA cannot work."""
    cuda, nvml, files = reading.cuda, reading.nvml, reading.files
    without_module = files.loaded is False or files.display_driver
    if (without_module and not nvml.gpus) or nvml.code == MISMATCH or nvml.hung:
        return True
    ignored = nvml.problem is None and not nvml.gpus and bool(files.pci) and not files.container
    return ignored and cuda.init == NO_DEVICE


def _library_unusable(reading: Reading) -> Finding:
    error = reading.cuda.library_error or ""
    if not reading.cuda.library_missing:
        message = "libcuda.so.1 exists but cannot be loaded: the driver's files are damaged or built for another architecture."
        remedy = "Reinstall the driver; in a container remove any libcuda.so.1 from the image."
    elif reading.files.container:
        message = "The GPU exists, but this container lacks CUDA's driver library (libcuda.so.1)."
        remedy = (
            f"{START_CONTAINER_WITH_GPUS} If NVIDIA_DRIVER_CAPABILITIES is set, it needs compute,utility."
        )
    else:
        message = "The GPU exists, but CUDA's driver library (libcuda.so.1) is not installed."
        remedy = "Install the compute part of the driver (libcuda: nvidia-driver-cuda, libnvidia-compute, libcuda1)."
    return Finding("D212", Severity.ERROR, message, (error,), remedy)


def _init_failed(reading: Reading, code: int) -> Finding:
    row = next((row for row in table("stack/cuda_errors") if int(row["code"]) == code), None)
    cuda, files = reading.cuda, reading.files
    evidence = [
        f"cuInit: {code}" + (f" ({row['name']})" if row else ""),
        f"libcuda: {cuda.path or 'unknown'}",
    ]
    if not files.uvm and not files.wsl:
        evidence.append("/dev/nvidia-uvm does not exist")
    cause = row["cause"] if row else "This error is not in GPUproof's table."
    return Finding(
        "D207",
        Severity.ERROR,
        f"CUDA does not initialize (cuInit returns {row['name'] if row else code}). {cause}",
        tuple(evidence),
        row["remedy"] if row else "Reboot; if that does not help, reinstall the driver.",
    )


CHECK = Check("cuInit", Layer.DRIVER, read, evaluate, summarize=summarize)
