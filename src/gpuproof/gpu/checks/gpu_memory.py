"""The memory of a GPU against the specification of the instance type."""

from __future__ import annotations

from gpuproof.findings import Finding, Severity
from gpuproof.util.humanize import format_bytes

_TOLERANCE = 0.9
"""NVML reports less than EC2 by what the driver reserves. Below this share of the specification, the GPU is another model
or a slice of one."""


def evaluate(
    index: int, name: str | None, memory: int | None, expected: int, instance_type: str
) -> Finding | None:
    """D703: a GPU with less memory than its instance type promises.

    Args:
        index: in NVML's order.
        name: as NVML reports it.
        memory: in bytes; None if unknown.
        expected: bytes of each GPU of the instance type; 0 if unknown.
    """
    if memory is None or memory >= _TOLERANCE * expected:
        return None
    return Finding(
        "D703",
        Severity.WARNING,
        f"GPU {index} has {format_bytes(memory)} instead of the {format_bytes(expected)} of {instance_type}: it is "
        "partitioned (MIG), shared, or another model.",
        (f"NVML: {name}, {format_bytes(memory)}",),
        "`nvidia-smi -L` shows whether it is partitioned.",
    )
