"""Performance counters of a GPU over one interval, and their means over a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

GPM = "gpm"
"""NVML's GPU performance monitoring: Hopper and newer."""
DCGM = "dcgm"
"""Profiling fields of NVIDIA's Data Center GPU Manager, where its daemon runs."""
COUNTERS = "counters"
"""Neither: power, clocks, memory utilization and PCIe traffic only."""

WHOLE_GPU = -1
"""Stands where the id of a MIG instance would be."""


@dataclass(frozen=True)
class Counters:
    """Hardware counters of a GPU, or of the job's MIG instances, since the previous reading. Shares from 0 to 1; `None` if unknown.

    Args:
        source: `GPM` or `DCGM`.
        busy: share of the time in which a kernel or copy ran.
        sm_active: share of multiprocessors with at least one warp, over time; the other fields are those of `Intensity`.
    """

    source: str
    busy: float | None = None
    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    fp64_active: float | None = None
    fp32_active: float | None = None
    fp16_active: float | None = None
    integer_active: float | None = None
    dram_active: float | None = None
    pcie_bytes_per_s: float | None = None
    nvlink_bytes_per_s: float | None = None


@dataclass(frozen=True)
class Intensity:
    """How hard a GPU worked: means over the samples in which the job had it busy. Shares from 0 to 1; `None` if unknown.

    A sample covers the time since the one before, so the time in which no kernel ran between two kernels is part of it:
    `sm_active / busy` is the share of multiprocessors in use while a kernel ran.

    Args:
        source: `gpm` (NVML), `dcgm`, or `counters` where no multiprocessor counters can be read.
        seconds: of the samples behind it.
        counted_s: seconds of those with hardware counters, which DCGM's exporter measures less often; `None` without any.
        busy: mean share of the time in which a kernel ran, over the samples with hardware counters if there are any.
        sm_active: mean share of multiprocessors with at least one warp, over time.
        sm_occupancy: resident warps as a share of the most that fit.
        tensor_active: share of cycles in which the tensor cores worked; `fp64_active`, `fp32_active`,
            `fp16_active` and `integer_active` likewise.
        dram_active: share of the memory's bandwidth that was used.
        pcie_bytes_per_s: read and written over PCIe; `nvlink_bytes_per_s` over NVLink.
        power_share: power above idle as a share of the board's limit above idle.
        memory_utilization: share of the time in which memory was read or written (NVML's utilization rates).
        clock_share: clock of the multiprocessors as a share of the highest.
    """

    source: str
    seconds: float = 0.0
    counted_s: float | None = None
    busy: float | None = None
    sm_active: float | None = None
    sm_occupancy: float | None = None
    tensor_active: float | None = None
    fp64_active: float | None = None
    fp32_active: float | None = None
    fp16_active: float | None = None
    integer_active: float | None = None
    dram_active: float | None = None
    pcie_bytes_per_s: float | None = None
    nvlink_bytes_per_s: float | None = None
    power_share: float | None = None
    memory_utilization: float | None = None
    clock_share: float | None = None


def mean_counters(counters: Sequence[Counters]) -> Counters | None:
    """The mean over several MIG instances of one job; `None` for a counter that one of them lacks."""
    if len(counters) <= 1:
        return counters[0] if counters else None
    means: dict[str, float] = {}
    for name in (field.name for field in fields(Counters) if field.name != "source"):
        values = [value for each in counters if (value := getattr(each, name)) is not None]
        if len(values) == len(counters):
            means[name] = sum(values) / len(values)
    return Counters(counters[0].source, **means)
