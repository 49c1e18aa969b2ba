"""Settings of the NVIDIA container runtime: which GPUs and driver libraries this container gets.

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
    """The runtime's variables, and whether the container has a GPU.

    Args:
        devices: `NVIDIA_VISIBLE_DEVICES`.
        capabilities: `NVIDIA_DRIVER_CAPABILITIES`.
        device_files: whether there is a device file such as `/dev/nvidia0`.
    """

    devices: str | None
    capabilities: str | None
    device_files: bool


def read(machine: Machine) -> Reading | None:
    """Read the variables; `None` outside a container, where they have no effect."""
    if not inside_container(machine):
        return None
    environment = machine.environment
    return Reading(
        environment.get("NVIDIA_VISIBLE_DEVICES"),
        environment.get("NVIDIA_DRIVER_CAPABILITIES"),
        any(machine.path("/dev").glob("nvidia[0-9]*")),
    )


def evaluate(reading: Reading) -> Iterator[Finding]:
    """D643 the container gets no GPUs, D644 it gets no CUDA or NVML libraries."""
    evidence = (
        f"NVIDIA_VISIBLE_DEVICES={reading.devices}",
        f"GPU device files: {'yes' if reading.device_files else 'none'}",
    )
    if reading.devices in ("void", "none", "") and not reading.device_files:
        yield Finding(
            "D643",
            Severity.ERROR,
            f"NVIDIA_VISIBLE_DEVICES={reading.devices} hides every GPU from this container.",
            evidence,
            "Start the container with --gpus all (docker run), or set NVIDIA_VISIBLE_DEVICES=all if the NVIDIA runtime is the "
            "default.",
        )
    if reading.device_files and reading.capabilities:
        capabilities = {capability.strip() for capability in reading.capabilities.split(",")}
        missing = [
            capability
            for capability in _NEEDED
            if capability not in capabilities and "all" not in capabilities
        ]
        if missing:
            yield Finding(
                "D644",
                Severity.ERROR if "compute" in missing else Severity.WARNING,
                f"NVIDIA_DRIVER_CAPABILITIES excludes `{'` and `'.join(missing)}`: "
                + (
                    "libcuda is missing, so no framework finds a GPU."
                    if "compute" in missing
                    else "NVML and nvidia-smi are missing, so the GPU cannot be monitored."
                ),
                (f"NVIDIA_DRIVER_CAPABILITIES={reading.capabilities}",),
                "Start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            )


CHECK = Check("container GPUs", Layer.ENVIRONMENT, read, evaluate)
