"""Other processes on the GPUs, which take memory and time from the next job."""

from __future__ import annotations

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.doctor.readings.host import inside_container
from gpuproof.gpu.checks.gpu_processes import GpuUse, evaluate, read_uses


def read(machine: Machine) -> tuple[GpuUse, ...] | None:
    """Read the use of each GPU."""
    gpus = read_gpus(machine)
    return read_uses(gpus, machine.root, in_container=inside_container(machine)) if gpus else None


CHECK = Check("GPU processes", Layer.ENVIRONMENT, read, evaluate)
