"""The verdict: whether the GPUs that the job was expected to use did work for it, and what limited them.

Everything here is pure: functions take the telemetry of `gpuproof.gpu` and return the verdict, which converts to JSON.
"""

from gpuproof.agent.verdict.hosts import HostReport, merge_hosts
from gpuproof.agent.verdict.judge import judge, used_so_far
from gpuproof.agent.verdict.schema import (
    CPU_ONLY,
    IDLE,
    NO_GPU_EXPECTED,
    OCCUPIED,
    PARTLY_USED,
    UNKNOWN,
    USED,
    Bottleneck,
    Energy,
    Expectation,
    GpuVerdict,
    HostVerdict,
    RankThroughput,
    Throughput,
    Verdict,
)
from gpuproof.agent.verdict.throughput import host_throughput

__all__ = [
    "CPU_ONLY",
    "IDLE",
    "NO_GPU_EXPECTED",
    "OCCUPIED",
    "PARTLY_USED",
    "UNKNOWN",
    "USED",
    "Bottleneck",
    "Energy",
    "Expectation",
    "GpuVerdict",
    "HostReport",
    "HostVerdict",
    "RankThroughput",
    "Throughput",
    "Verdict",
    "host_throughput",
    "judge",
    "merge_hosts",
    "used_so_far",
]
