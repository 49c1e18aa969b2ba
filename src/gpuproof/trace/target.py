"""The GPU that a traced script believes it has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TargetGpu:
    """What the framework's functions answer about the GPU.

    Args:
        name: such as `NVIDIA A10G`.
        memory: in bytes.
        capability: compute capability.
        processors: streaming multiprocessors.
        count: GPUs on the host.
    """

    name: str = "NVIDIA A100-SXM4-40GB"
    memory: int = 40 << 30
    capability: tuple[int, int] = (8, 0)
    processors: int = 108
    count: int = 1
