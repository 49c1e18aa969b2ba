"""Evidence of simulated runs: readings of GPUs over time, added up by the real aggregator.

telemetry = watched(60, gpu(util=90, mib=8000, pids={JOB: 7900}, since=5))
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gpuproof.gpu.aggregate import Aggregator
from gpuproof.gpu.intensity import Counters
from gpuproof.gpu.nvml import MIB, GpuInfo, GpuReading
from gpuproof.gpu.processes import BusyProcess, CpuUse, ProcessReading, ShmReading, TreeReading
from gpuproof.gpu.telemetry import NvmlState, Sample, Telemetry

JOB = 4711
"""A process of the job."""
STRANGER = 815
"""A process of this machine that is not the job's."""
OUTSIDER = 90210
"""A process that exists only outside this container."""

GPU_MIB = 23028
SPINNING = Counters(
    "gpm",
    1.0,
    1 / 80,
    1 / (80 * 64),
    0.0,
    0.0,
    0.0,
    0.0,
    1e-4,
    0.0,
    pcie_bytes_per_s=1e6,
    nvlink_bytes_per_s=0.0,
)
"""Counters of a GPU with 80 multiprocessors, of which one runs a thread that waits."""
TRAINING = Counters("gpm", 0.97, 0.85, 0.4, 0.45, 0.0, 0.1, 0.02, 0.1, 0.4, 5e7, 0.0)
Timeline = Callable[[int, float], GpuReading]


def gpu(
    util: int | None = 0,
    *,
    mib: int | None = 0,
    pids: Mapping[int, int | None] | None = None,
    since: float = 0.1,
    until: float = 1e9,
    idle_mib: int = 0,
    idle_pids: Mapping[int, int | None] | None = None,
    idle_util: int = 0,
    lost_at: float = 1e9,
    listed: bool = True,
    **more: Any,
) -> Timeline:
    """A GPU that is idle before `since` and from `until` on, and like this in between.

    Args:
        pids: process ids with their MiB; `idle_pids` those that are there all the time.
        lost_at: from then on it cannot be read.
        listed: whether NVML lists processes at all.
        more: further values of the reading while it is busy.
    """

    def reading(index: int, t: float) -> GpuReading:
        if t >= lost_at:
            return GpuReading(index, error="GPU is lost (NVML code 15)")
        busy = since <= t < until
        holders = {**(idle_pids or {}), **((pids or {}) if busy else {})}
        used = mib if busy else idle_mib
        base = GpuReading(
            index,
            utilization=util if busy else idle_util,
            memory_used=None if used is None else used * MIB,
            memory_total=GPU_MIB * MIB,
            memory_reserved=0,
            power_w=200.0 if busy and util else 30.0,
            throttle=(),
            processes=tuple((pid, None if m is None else m * MIB) for pid, m in holders.items())
            if listed
            else None,
        )
        return replace(base, **more) if busy else base

    return reading


def cpu(cores: float = 1.0, name: str = "python", *, saturated: int = 0, disk: int = 0) -> CpuUse:
    """What the job took of the CPU, its busiest process having `cores`."""
    return CpuUse(cores, BusyProcess(JOB, name, cores), saturated, disk)


def watched(
    seconds: float,
    *gpus: Timeline,
    step: float = 1.0,
    begin: float = 0.0,
    cpu: CpuUse | None = None,
    read_rate: float = 0.0,
    shm: ShmReading | None = None,
    nvml: str = NvmlState.AVAILABLE,
    multiprocessors: int | None = 80,
    **aggregator: Any,
) -> Telemetry:
    """What the aggregator makes of a run with these GPUs, looked at every `step` seconds from `begin` on."""
    infos = tuple(
        replace(
            GpuInfo(index, f"GPU-{index:08x}", "NVIDIA A10G", GPU_MIB * MIB, None, (8, 6), 300.0, 1710),
            multiprocessors=multiprocessors,
        )
        for index in range(len(gpus))
    )
    options = {"pids_comparable": True, "cpu_count": 8, **aggregator}
    book = Aggregator(infos, nvml=nvml, **options)
    tree = TreeReading((ProcessReading(JOB, "python", 0.0),), 0.0, 100 * MIB, 0, 0)
    steps = round(seconds / step)
    for number in range(steps + 1):
        t = begin + number * step
        book.add(
            Sample(
                t=t,
                dt=step if number else 0.0,
                gpus=tuple(timeline(index, t) for index, timeline in enumerate(gpus)),
                tree=replace(tree, cpu_seconds=t * (cpu.cores if cpu else 0.1)),
                cpu=cpu if number else None,
                read_rate=read_rate,
                shm=shm,
                foreign_pids=frozenset({STRANGER}),
            )
        )
    return book.telemetry()
