"""What the NVIDIA container runtime was told to bring into this container.

Source: NVIDIA Container Toolkit, specialized configurations with Docker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.host import inside_container
from gpuproof.findings import Finding, Severity

_NEEDED = ("compute", "utility")


@dataclass(frozen=True)
class Reading:
    """The runtime's variables, and whether it brought anything.

    Args:
        devices: `NVIDIA_VISIBLE_DEVICES`.
        capabilities: `NVIDIA_DRIVER_CAPABILITIES`.
        device_files: whether `/dev/nvidia0` or the like is here.
    """

    devices: str | None
    capabilities: str | None
    device_files: bool


def read(machine: Machine) -> Reading | None:
    """The variables; `None` outside a container, where nobody reads them."""
    if not inside_container(machine):
        return None
    environment = machine.environment
    return Reading(
        environment.get("NVIDIA_VISIBLE_DEVICES"),
        environment.get("NVIDIA_DRIVER_CAPABILITIES"),
        any(machine.path("/dev").glob("nvidia[0-9]*")),
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D643 a container without GPUs, D644 one without the driver's libraries for CUDA."""
    evidence = (
        f"NVIDIA_VISIBLE_DEVICES={reading.devices}",
        f"GPU device files: {'yes' if reading.device_files else 'none'}",
    )
    if reading.devices in ("void", "none", "") and not reading.device_files:
        yield Finding(
            "D643",
            Severity.ERROR,
            f"NVIDIA_VISIBLE_DEVICES={reading.devices} keeps every GPU out of this container.",
            evidence,
            "Start it with --gpus all (docker run), or set NVIDIA_VISIBLE_DEVICES=all where the NVIDIA runtime is the "
            "default one.",
        )
    if reading.device_files and reading.capabilities:
        given = {one.strip() for one in reading.capabilities.split(",")}
        missing = [one for one in _NEEDED if one not in given and "all" not in given]
        if missing:
            yield Finding(
                "D644",
                Severity.ERROR if "compute" in missing else Severity.WARNING,
                f"The container was given the driver without `{'` and `'.join(missing)}`: "
                + (
                    "libcuda is missing, and no framework finds its GPU."
                    if "compute" in missing
                    else "NVML and nvidia-smi are missing, so nobody can watch the GPU."
                ),
                (f"NVIDIA_DRIVER_CAPABILITIES={reading.capabilities}",),
                "Start it with NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            )


CHECK = Check("GPUs of the container", Layer.ENVIRONMENT, read, evaluate)
