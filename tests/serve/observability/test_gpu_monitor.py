"""Warnings of the server about GPUs that its requests leave idle."""

from __future__ import annotations

import pytest

from gpuproof.gpu.nvml import GpuReading
from gpuproof.serve.observability.gpu_monitor import GpuUsage, unused_warning

MIB = 1 << 20


def watched(utilization: int, taken: int, samples: int = 6) -> GpuUsage:
    gpu = GpuUsage(0)
    gpu.add(GpuReading(0, utilization=0, memory_used=500 * MIB), busy=False)
    for _ in range(samples):
        gpu.add(GpuReading(0, utilization=utilization, memory_used=500 * MIB + taken), busy=True)
    return gpu


def test_a_gpu_without_work_and_without_memory_is_warned_of() -> None:
    warning = unused_warning([watched(0, 0)], 100)
    assert warning is not None
    assert "GPU 0 did nothing in the first 100 requests" in warning


@pytest.mark.parametrize(
    ("gpus", "answered"),
    [
        ([watched(3, 0)], 100),
        ([watched(0, 400 * MIB)], 100),
        ([watched(0, 0)], 5),
        ([watched(0, 0, samples=2)], 100),
        ([], 100),
        ([GpuUsage(0, samples=9)], 100),
    ],
)
def test_a_gpu_that_worked_or_of_which_little_is_known_is_not(gpus: list[GpuUsage], answered: int) -> None:
    assert unused_warning(gpus, answered) is None
