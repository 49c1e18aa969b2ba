"""Xid events: entries of the driver in the kernel log when a GPU, or a program on it, failed."""

from __future__ import annotations

from gpuproof.doctor.check import Check, Layer
from gpuproof.doctor.machine import Machine
from gpuproof.doctor.readings.gpus import read_gpus
from gpuproof.doctor.readings.kernel_log import read_kernel_log
from gpuproof.gpu.checks.xid_events import Reading, evaluate, find_xid_events, gpu_labels


def read(machine: Machine) -> Reading | None:
    """Read the events; `None` if the kernel log cannot be read."""
    lines = read_kernel_log(machine)
    if lines is None:
        return None
    events = find_xid_events(lines)
    gpus = read_gpus(machine) if events else None
    return Reading(events, gpu_labels(gpus) if gpus else ())


CHECK = Check("Xid events", Layer.ENVIRONMENT, read, evaluate)
