"""The GPUs of a machine, read once for all of its checks."""

from __future__ import annotations

from gpuproof.doctor.machine import Machine, read_once
from gpuproof.gpu.checks.states import Gpus, read_gpu_states


def read_gpus(machine: Machine) -> Gpus | None:
    """Read the GPUs; `None` if NVML is unusable or lists none, which the driver layer reports."""
    return read_once(machine, "gpus", _read)


def _read(machine: Machine) -> Gpus | None:
    return read_gpu_states(machine.environment) if machine.nvml.gpus else None
