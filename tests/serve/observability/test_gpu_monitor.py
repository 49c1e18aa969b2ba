"""What the server says of GPUs that its requests leave idle."""

from __future__ import annotations

import pytest

from gpuproof.gpu.nvml import GpuReading
from gpuproof.serve.observability.gpu_monitor import Watched, verdict

MIB = 1 << 20


def watched(utilization: int, taken: int, looks: int = 6) -> Watched:
    gpu = Watched(0)
    gpu.add(GpuReading(0, utilization=0, memory_used=500 * MIB), working=False)
    for _ in range(looks):
        gpu.add(GpuReading(0, utilization=utilization, memory_used=500 * MIB + taken), working=True)
    return gpu


def test_a_gpu_without_work_and_without_memory_is_warned_of() -> None:
    warning = verdict([watched(0, 0)], 100)
    assert warning is not None
    assert "GPU 0 did nothing in the first 100 requests" in warning


@pytest.mark.parametrize(
    ("gpus", "answered"),
    [
        ([watched(3, 0)], 100),
        ([watched(0, 400 * MIB)], 100),
        ([watched(0, 0)], 5),
        ([watched(0, 0, looks=2)], 100),
        ([], 100),
        ([Watched(0, looks=9)], 100),
    ],
)
def test_a_gpu_that_worked_or_of_which_little_is_known_is_not(gpus: list[Watched], answered: int) -> None:
    assert verdict(gpus, answered) is None
