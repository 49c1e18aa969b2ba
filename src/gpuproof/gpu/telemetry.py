"""What was seen of a run: one sample, and the sum of all samples from which a verdict is judged."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuproof.gpu.nvml import GpuInfo, GpuReading
from gpuproof.gpu.processes import CpuUse, ShmReading, TreeReading

NVML_FINE = "fine"
NVML_MISSING = "missing"
NVML_FAILED = "failed"
NVML_NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Sample:
    """One look at everything.

    Args:
        t: seconds since the watch began.
        dt: seconds since the sample before; 0 for the first, the baseline.
        gpus: one reading a GPU, in NVML's order; empty where there is no NVML.
        tree: the job's processes.
        cpu: what they took of the CPU since the sample before.
        read_rate: bytes per second that they fetched from storage since then.
        strangers: process ids that hold a GPU, exist here, and are not the job's.
    """

    t: float
    dt: float = 0.0
    gpus: tuple[GpuReading, ...] = ()
    tree: TreeReading | None = None
    cpu: CpuUse | None = None
    read_rate: float | None = None
    shm: ShmReading | None = None
    strangers: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Series:
    """Values over time in equal steps, for a sparkline; `None` where nothing was known."""

    step_s: float = 1.0
    values: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Work:
    """The work that a GPU did, for the job or for anybody.

    Args:
        held_s: seconds in which somebody had memory or a context on it.
        busy_s: utilization summed over time: 10 s at 50 % are 5.
        unclear_s: seconds of work that nobody can say whose it was.
        first_use_s: when it first worked, in seconds since the watch began.
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
class GpuEvidence:
    """All that was seen of one GPU.

    Args:
        own: what it did for the job's own processes, as far as NVML lists them.
        device: what it did for anybody.
        own_seen: a process of the job was on it.
        visible_others_s: seconds in which a process that exists here and is not the job's was on it.
        hidden_others_s: the same with processes that do not exist here, as a container sees the host's.
        processes_listed: NVML listed its processes at all, even if there were none.
        readable_s, unreadable_s: seconds with and without readings.
        lost_at_s: from when on nothing could be read any more; `None` where it could to the end.
        error: why it could not be read, the last time that it could not.
        baseline_memory: bytes in use at the first reading, which was at `baseline_s`; `baseline_reserved` tells
            whether the driver's own memory is left out of it.
        last_memory: bytes in use at the last reading.
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
    last_memory: int | None = None
    baseline_reserved: bool = False
    others_at_baseline: bool = False


@dataclass(frozen=True)
class TreeEvidence:
    """What the job's processes took in all; bytes and seconds, CPU in cores."""

    peak_rss: int
    cpu_seconds: float
    mean_cores: float
    read_bytes: int | None
    written_bytes: int | None
    peak_processes: int


@dataclass(frozen=True)
class Waiting:
    """What went on while the job's GPUs were waiting. Seconds are weighted: 1 s at 30 % utilization is 0.7 s of waiting.

    Args:
        held_s: seconds in which the job had a GPU.
        waiting_s: how many of them the GPUs waited.
        one_core_s: waiting while a process of the job kept one core busy and most other cores were free.
        all_cores_s: waiting while the job kept all cores busy.
        disk_s: waiting while a process waited for a disk, or much was read.
        mean_cores: cores that the job kept busy, on average over the waiting.
        busiest: the process that kept one core busy for longest, with its mean cores.
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
class Evidence:
    """All that was seen of a run.

    Args:
        seconds: how long the watch went on.
        samples: how many looks there were.
        nvml: one of this module's `NVML_...` words; `nvml_reason` says in words what is wrong.
        pids_comparable: process ids here are the host's, so that a strange one on a GPU is somebody else's.
        visible_devices: the job's `CUDA_VISIBLE_DEVICES`, where it was set.
        shm_peak: the fullest that `/dev/shm` was.
        troubles: what went wrong with watching, in words.
    """

    seconds: float = 0.0
    samples: int = 0
    nvml: str = NVML_NOT_ASKED
    nvml_reason: str | None = None
    driver_version: str | None = None
    gpus: tuple[GpuEvidence, ...] = ()
    pids_comparable: bool = False
    visible_devices: str | None = None
    tree: TreeEvidence | None = None
    waiting: Waiting = field(default_factory=Waiting)
    shm_peak: ShmReading | None = None
    troubles: tuple[str, ...] = ()
