"""NVSwitch machines (p4d, p4de, p5, p6): CUDA does not start without an initialized fabric (error 802)."""

from __future__ import annotations

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.doctor.readings.host import inside_container
from gpuproof.gpu.checks.fabric_manager import Reading, evaluate, read_fabric


def read(machine: Machine) -> Reading | None:
    """Read the fabric; `None` on a machine without one."""
    return read_fabric(read_gpus(machine), machine.root, in_container=inside_container(machine))


CHECK = Check("NVLink fabric", Layer.ENVIRONMENT, read, evaluate)
