"""The verdict: did the GPUs that the job was meant to use do its work, and what held them back.

Everything here is pure: it takes what `gpuproof.gpu` saw and gives the finding, which goes to and from JSON.
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
