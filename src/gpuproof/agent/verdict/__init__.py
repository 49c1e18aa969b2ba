"""The verdict: whether the GPUs that the job was expected to use did work for it, and what limited them.

Everything here is pure: functions take the telemetry of `gpuproof.gpu` and return the verdict, which converts to JSON.
"""

from gpuproof.agent.verdict.judge import judge, used_so_far
from gpuproof.agent.verdict.schema import (
    CPU_ONLY,
    IDLE,
    NO_GPU_EXPECTED,
    UNKNOWN,
    USED,
    Bottleneck,
    Expectation,
    GpuVerdict,
    Verdict,
)

__all__ = [
    "CPU_ONLY",
    "IDLE",
    "NO_GPU_EXPECTED",
    "UNKNOWN",
    "USED",
    "Bottleneck",
    "Expectation",
    "GpuVerdict",
    "Verdict",
    "judge",
    "used_so_far",
]
