"""Measurements of a run: single samples, and the totals on which the verdict is based."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gpuproof.gpu.intensity import Intensity
from gpuproof.gpu.nvml import GpuInfo, GpuReading
from gpuproof.gpu.processes import CpuUse, ShmReading, TreeReading


class NvmlState(enum.Enum):
    """Whether NVML could be read."""

    AVAILABLE = "available"
    MISSING = "missing"
    """The NVIDIA driver, which brings NVML, is not installed."""
    FAILED = "failed"
    NOT_QUERIED = "not queried"


@dataclass(frozen=True)
class Sample:
    """All measurements at one moment.

    Args:
        t: seconds since monitoring began.
        dt: seconds since the previous sample; 0 for the first one, the baseline.
        gpus: one reading per GPU, in NVML's order; empty without NVML.
        cpu: CPU time that they used since the previous sample.
        read_rate: bytes per second that they read from storage since then.
        foreign_pids: ids of processes that use a GPU, are visible here and do not belong to the job.
    """

    t: float
    dt: float = 0.0
    gpus: tuple[GpuReading, ...] = ()
    tree: TreeReading | None = None
    cpu: CpuUse | None = None
    read_rate: float | None = None
    shm: ShmReading | None = None
    foreign_pids: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Series:
    """A GPU over time: means over equal steps; `None` for unknown values.

    Args:
        step_s: length of a step in seconds.
        values: utilization for the job, in percent.
        memory: bytes in use by all processes; this and what follows have as many values as `values`, or none if unknown.
        power_w: power in watts.
        temperature_c: temperature in degrees Celsius.
    """

    step_s: float = 1.0
    values: tuple[float | None, ...] = ()
    memory: tuple[float | None, ...] = ()
    power_w: tuple[float | None, ...] = ()
    temperature_c: tuple[float | None, ...] = ()


SENSORS = ("memory", "power_w", "temperature_c")
"""The values of a `Series` that are the device's, for all processes."""


@dataclass(frozen=True)
class Work:
    """The work of a GPU, for the job or for all processes.

    Args:
        held_s: seconds in which a process had memory or a context on the GPU.
        busy_s: utilization summed over time: 10 s at 50 % are 5.
        unclear_s: seconds of work that could not be attributed to a process.
        first_use_s: first work, in seconds since monitoring began.
        mean_utilization: percent, over the active window from first to last use; `p90_utilization` likewise.
        peak_memory: bytes.
        throttle: (reason, share of the working time from 0 to 1).
    """

    held_s: float = 0.0
    busy_s: float = 0.0
    unclear_s: float = 0.0
    first_use_s: float | None = None
    last_use_s: float | None = None
    mean_utilization: float | None = None
    p90_utilization: float | None = None
    peak_memory: int | None = None
    mean_power_w: float | None = None
    max_power_w: float | None = None
    throttle: tuple[tuple[str, float], ...] = ()
    series: Series = field(default_factory=Series)


@dataclass(frozen=True)
class GpuTelemetry:
    """Totals of one GPU.

    Args:
        own: its work for the job's own processes, as far as NVML lists them.
        device: its work for all processes.
        visible_others_s: seconds in which a process that is visible here and does not belong to the job used it.
        hidden_others_s: the same for processes that are not visible here, such as the host's from within a container.
        processes_listed: NVML supports listing its processes, even if there were none.
        readable_s, unreadable_s: seconds with and without readings.
        lost_at_s: when it became unreadable for the rest of the run; `None` if it stayed readable.
        error: why the last failed reading failed.
        baseline_s: for how many seconds the job had been running at the first reading.
        baseline_memory: bytes in use at the first reading; `baseline_reserved` is true if it does not include the driver's own
            memory.
        baseline_utilization: percent at the first reading; None if unknown.
        last_memory: bytes in use at the last reading.
        memory_rise: the largest rise of the bytes in use, from a reading to a later one.
        ecc_errors: memory errors during the run, corrected or not; `None` if it does not count them.
        energy_j: joules that it used, except while only processes of others used it; `None` if its power is unknown.
        above_baseline: its work for all processes above `baseline_utilization`, with a margin for a desktop.
        intensity: how hard it worked while it was busy for the job: for its own processes if NVML lists any, else for all.
            Samples in which other processes shared it are left out of the former. `None` if it was never busy.
    """

    info: GpuInfo
    own: Work = field(default_factory=Work)
    device: Work = field(default_factory=Work)
    own_seen: bool = False
    visible_others_s: float = 0.0
    hidden_others_s: float = 0.0
    processes_listed: bool = False
    utilization_known: bool = False
    readable_s: float = 0.0
    unreadable_s: float = 0.0
    lost_at_s: float | None = None
    error: str | None = None
    baseline_s: float = 0.0
    baseline_memory: int | None = None
    baseline_utilization: int | None = None
    last_memory: int | None = None
    memory_rise: int = 0
    ecc_errors: int | None = None
    energy_j: float | None = None
    above_baseline: Work = field(default_factory=Work)
    baseline_reserved: bool = False
    others_at_baseline: bool = False
    intensity: Intensity | None = None


@dataclass(frozen=True)
class ProcessTelemetry:
    """Totals of the job's processes; bytes and seconds, CPU in cores."""

    peak_rss: int
    cpu_seconds: float
    mean_cores: float
    read_bytes: int | None
    written_bytes: int | None
    peak_processes: int


@dataclass(frozen=True)
class Waiting:
    """Activity while the job's GPUs were waiting. Seconds are weighted: 1 s at 30 % utilization is 0.7 s of waiting.

    Args:
        held_s: seconds in which the job had a GPU.
        waiting_s: seconds of those in which the GPUs waited.
        one_core_s: waiting while a process of the job kept one core busy and most other cores were free.
        all_cores_s: waiting while the job kept all cores busy.
        disk_s: waiting while a process waited for a disk, or much was read.
        saturated: how many processes kept a core busy each, on average over `one_core_s`.
        read_rate: mean bytes per second from storage over `disk_s`.
    """

    held_s: float = 0.0
    waiting_s: float = 0.0
    one_core_s: float = 0.0
    all_cores_s: float = 0.0
    disk_s: float = 0.0
    mean_cores: float = 0.0
    busiest_pid: int | None = None
    busiest_name: str | None = None
    busiest_cores: float = 0.0
    saturated: float = 0.0
    read_rate: float = 0.0
    cpu_count: int = 1


@dataclass(frozen=True)
class Telemetry:
    """Totals of a run.

    Args:
        seconds: how long the run was monitored.
        samples: number of samples.
        nvml: whether NVML could be read; `nvml_reason` explains why not.
        visible_devices: the job's `CUDA_VISIBLE_DEVICES`, if set.
        shm_peak: `/dev/shm` at its fullest.
    """

    seconds: float = 0.0
    samples: int = 0
    nvml: NvmlState = NvmlState.NOT_QUERIED
    nvml_reason: str | None = None
    driver_version: str | None = None
    gpus: tuple[GpuTelemetry, ...] = ()
    pids_comparable: bool = False
    visible_devices: str | None = None
    tree: ProcessTelemetry | None = None
    waiting: Waiting = field(default_factory=Waiting)
    shm_peak: ShmReading | None = None
    problems: tuple[str, ...] = ()
