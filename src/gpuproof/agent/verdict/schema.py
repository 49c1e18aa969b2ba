"""The verdict and its JSON form, `verdict.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from gpuproof.agent.verdict.evidence import (
    Activity,
    Intensity,
    Mfu,
    RunEvent,
    Steps,
    activity_from,
    intensity_from,
    mfu_from,
    steps_from,
)
from gpuproof.agent.verdict.evidence import known_fields as _known
from gpuproof.gpu.telemetry import SENSORS, Series

VERSION = 2
"""Version 1 has no outcomes `partly used` and `occupied`, and none of the keys of `evidence.py`."""
_READABLE = (1, VERSION)

USED = "used"
"""All GPUs that were expected did work for the job; if none was expected, at least one."""
PARTLY_USED = "partly used"
"""Some of the GPUs that were expected did work for the job, and some certainly did none, or are missing."""
OCCUPIED = "occupied"
"""GPUs were busy for the job, and certainly did no work: a spinning kernel, copies, or waiting for another rank."""
IDLE = "idle"
"""The job opened a GPU, which then did almost no work."""
CPU_ONLY = "cpu-only"
"""GPUs were expected, and the job never opened one."""
NO_GPU_EXPECTED = "no-gpu-expected"
"""None was expected and none was used."""
UNKNOWN = "unknown"
"""GPUs were expected, and it is unknown whether they, or some of them, worked."""

OPTIONAL_KEYS = (
    "host",
    "head",
    "hosts",
    "throughput",
    "cuda_compat",
    "cause",
    "intensity",
    "activity",
    "steps",
    "mfu",
    "energy",
    "ecc_errors",
    "energy_j",
    "events",
    *SENSORS,
)
"""Keys that a document has only if there is something in them."""

BY_PROCESSES = "processes"
BY_DEVICE = "device counters"


@dataclass(frozen=True)
class Expectation:
    """What the job is expected to use.

    Args:
        gpus: how many GPUs; `None` if unspecified.
        gpu_name: their model, such as `A10G`.
        because: what the expectation follows from, such as `instance_type: g5.xlarge`.
        required: whether the run fails if they are not used.
    """

    gpus: int | None = None
    gpu_name: str | None = None
    because: str = ""
    required: bool | None = None

    @property
    def count(self) -> int:
        """How many GPUs must work; a required or named GPU without a number is one."""
        if self.required:
            return max(self.gpus or 0, 1)
        if self.gpus is not None:
            return self.gpus
        return 1 if self.gpu_name else 0


@dataclass(frozen=True)
class GpuVerdict:
    """The verdict on one GPU. Memory in bytes, power in watts, times in seconds since monitoring began.

    Args:
        touched: the job had a context or memory on it; `None` if unknown.
        worked: it did work for the job; `None` if unknown, with the reason in `why`.
        judged_by: the process ids that NVML lists, or the device's own counters.
        active_window: first and last use.
        mean_utilization: percent over the active window; `p90_utilization` likewise.
        throttle: reasons for lowered clocks, each with its share of the working time from 0 to 1.
        others_present: a process that does not belong to the job used it.
        hidden: the job's `CUDA_VISIBLE_DEVICES` hid it.
        host: the host it belongs to; `None` in the verdict of a single host.
        intensity: how hard it worked while it was busy; `activity` what it did then.
        ecc_errors: memory errors during the run, corrected or not; 0 or `None` if none are known.
        energy_j: joules that it used during the run, except while only processes of others used it; `None` if unknown.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    worked: bool | None = None
    touched: bool | None = None
    judged_by: str | None = None
    why: str | None = None
    first_use_s: float | None = None
    active_window: tuple[float, float] | None = None
    mean_utilization: float | None = None
    p90_utilization: float | None = None
    busy_s: float = 0.0
    held_s: float = 0.0
    peak_memory: int | None = None
    memory_total: int | None = None
    headroom: int | None = None
    mean_power_w: float | None = None
    max_power_w: float | None = None
    power_limit_w: float | None = None
    throttle: Mapping[str, float] = field(default_factory=dict)
    series: Series = field(default_factory=Series)
    others_present: bool = False
    hidden: bool = False
    host: str | None = None
    intensity: Intensity | None = None
    activity: Activity | None = None
    ecc_errors: int | None = None
    energy_j: float | None = None

    @property
    def is_occupied(self) -> bool:
        """Whether it was busy for the job and certainly did no work."""
        return self.worked is False and self.activity is not None and self.activity.is_no_work


@dataclass(frozen=True)
class Bottleneck:
    """Something that limited the GPUs.

    Args:
        kind: what the steps show: `input`, `copy`, `launch-bound`, `synchronization`, `communication`, `evaluation`,
            `checkpoint` or `straggler`. Without steps, `one-core`, `all-cores`, `disk` or `unexplained`. `shm`,
            `throttling`; `imbalance` between GPUs; with several hosts, `start-skew` or `end-skew` between them.
        numbers: of what the steps show, `share` of their time, `seconds` and `run_share` of the run's, and `while`: what
            it would be without steps, or `None` if the GPUs hardly waited.
        host: the host where it was measured; `None` in the verdict of a single host, or if it concerns all hosts.
        head: the beginning of `sentence` that says what was lost and how much, such as `input wait 41%`.
    """

    kind: str
    sentence: str
    numbers: Mapping[str, float | int | str | None]
    host: str | None = None
    head: str | None = None


@dataclass(frozen=True)
class ProcessSummary:
    """Resource use of the job's processes: bytes, seconds, and percent of one core."""

    peak_rss: int
    mean_cpu_percent: float
    cpu_seconds: float
    read_bytes: int | None
    written_bytes: int | None
    peak_processes: int


@dataclass(frozen=True)
class RankThroughput:
    """Throughput of one process that called `gpuproof.runtime.log_throughput`.

    Args:
        rank: its rank in the job; `None` without a launcher.
        examples: all examples that it has counted.
        seconds: from the end of its first counted step to the end of its last.
        examples_per_s: examples after the first counted step, divided by these seconds.
    """

    rank: int | None
    examples: int
    seconds: float
    examples_per_s: float


@dataclass(frozen=True)
class Throughput:
    """Throughput of a host, or of a job: the sum of its hosts.

    Args:
        examples_per_s: over the time from the first counted step of any process to the last.
        windows: examples per second in consecutive windows of equal length, at most 64; empty if the run was short.
    """

    examples_per_s: float
    examples: int
    seconds: float
    ranks: tuple[RankThroughput, ...] = ()
    windows: tuple[float, ...] = ()


@dataclass(frozen=True)
class Energy:
    """Energy that GPUs used for the job; the rest of their machines is not included.

    Args:
        joules: 1 kWh is 3.6 million.
        gpus: how many GPUs: those that the job opened, and the others of a machine that it had for itself.
    """

    joules: float
    gpus: int


@dataclass(frozen=True)
class HostVerdict:
    """The verdict of one host, as a part of the verdict on a job with several hosts.

    Args:
        outcome: `None` if the host left no verdict; then `gpus_expected` is what the other hosts expect.
        started: when its script started, `ended` when it ended; seconds since the epoch, by the host's own clock.
        first_use_s: when its first GPU was first used, in seconds since its script started.
        start_wait_s: how long it was ready before the last host was; `end_wait_s` how long the last host's script ran
            after its own. `None` if it is unknown.
    """

    host: str
    outcome: str | None
    reason: str
    gpus_expected: int = 0
    gpus_working: int = 0
    gpus_present: int = 0
    gpu_requirement_met: bool | None = True
    seconds: float = 0.0
    started: float | None = None
    ended: float | None = None
    first_use_s: float | None = None
    start_wait_s: float | None = None
    end_wait_s: float | None = None
    processes: ProcessSummary | None = None
    cpu_count: int | None = None
    throughput: Throughput | None = None
    steps: Steps | None = None
    energy: Energy | None = None


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run.

    Args:
        remedy: what to check next, if something is wrong.
        cause: the code of `gpuproof explain` for what is wrong, if that is known: the driver is too old for the framework.
        gpus_expected: number of GPUs expected to work; `gpus_working` of those that did; `gpus_present` of all.
        gpu_requirement_met: `False` if GPUs are required and too few did any work, `None` if unknown, `True`
            otherwise.
        seconds: how long the run was monitored; `samples` how often.
        shm_peak, shm_total: `/dev/shm`, in bytes.
        driver_version: of the host's NVIDIA driver.
        cuda_compat: version of the image's driver library, if it took the place of the host's (forward compatibility).
        throughput: what the script reported; `None` if it reported nothing.
        steps: where the time of the steps went; `None` if no training loop was recognized.
        mfu: model FLOPs utilization; `None` if the FLOPs of a step, or the time of a step, are unknown.
        energy: of the GPUs; `None` if no power could be read.
        hosts: the verdict of each host, of a job with several hosts; empty for one host. GPUs and bottlenecks then name
            their host, and `processes` is the sum over all hosts, except that `peak_rss` is that of the fullest host.
        events: what happened, for the time axis of a report, in the order of time; at most 200.
    """

    outcome: str
    reason: str
    remedy: str | None = None
    cause: str | None = None
    expectation: Expectation = field(default_factory=Expectation)
    gpus_expected: int = 0
    gpus_working: int = 0
    gpus_present: int = 0
    gpu_requirement_met: bool | None = True
    gpus: tuple[GpuVerdict, ...] = ()
    bottlenecks: tuple[Bottleneck, ...] = ()
    processes: ProcessSummary | None = None
    cpu_count: int | None = None
    shm_peak: int | None = None
    shm_total: int | None = None
    driver_version: str | None = None
    cuda_compat: str | None = None
    seconds: float = 0.0
    samples: int = 0
    notes: tuple[str, ...] = ()
    throughput: Throughput | None = None
    steps: Steps | None = None
    mfu: Mfu | None = None
    energy: Energy | None = None
    hosts: tuple[HostVerdict, ...] = ()
    events: tuple[RunEvent, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Convert the verdict to plain values for `json.dump`; floats are rounded to three decimals, those below 1 to four digits,
        series to whole numbers.

        Keys of parts that there are none of, such as hosts and throughput, are left out.
        """
        document = _rounded(asdict(self))
        series = [gpu["series"] for gpu in document["gpus"]]
        for each in series:
            each.update({name: _whole(each[name]) for name in ("values", *SENSORS)})
        parts = (document, *document["gpus"], *series, *document["bottlenecks"], *document["events"])
        for part in parts:
            for name in OPTIONAL_KEYS:
                if not part.get(name, True):
                    del part[name]
        return {"version": VERSION, **document}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Verdict:
        """Convert the result of `to_json` back; unknown keys are ignored.

        Raises:
            ValueError: another version, or not a verdict.
        """
        if value.get("version") not in _READABLE:
            raise ValueError(
                f"verdict.json has version {value.get('version')!r}; this GPUproof reads {VERSION}"
            )
        try:
            return _verdict(value)
        except (KeyError, TypeError) as error:
            raise ValueError(f"verdict.json is not a verdict: {error}") from error


def outcome_of_working(working: int, unclear: int, expected: int) -> str:
    """The outcome of a job with working GPUs: `used`, `partly used`, or `unknown` if those that are missing may have worked."""
    if working >= expected:
        return USED
    return UNKNOWN if working + unclear >= expected else PARTLY_USED


def _verdict(value: Mapping[str, Any]) -> Verdict:
    known = _known(Verdict, value)
    known.update(
        expectation=Expectation(**_known(Expectation, value["expectation"])),
        gpus=tuple(_gpu(gpu) for gpu in value["gpus"]),
        bottlenecks=tuple(
            Bottleneck(**_known(Bottleneck, bottleneck)) for bottleneck in value["bottlenecks"]
        ),
        processes=_processes(value),
        notes=tuple(value["notes"]),
        throughput=_throughput(value),
        steps=steps_from(value.get("steps")),
        mfu=mfu_from(value.get("mfu")),
        energy=_energy(value),
        hosts=tuple(_host(host) for host in value.get("hosts", ())),
        events=tuple(RunEvent(**_known(RunEvent, event)) for event in value.get("events") or ()),
    )
    verdict = Verdict(**known)
    # Version 1 called all of these `used`.
    if value["version"] == 1 and verdict.outcome == USED and verdict.gpus_working < verdict.gpus_expected:
        return replace(verdict, outcome=UNKNOWN if verdict.gpu_requirement_met is None else PARTLY_USED)
    return verdict


def _host(value: Mapping[str, Any]) -> HostVerdict:
    known = _known(HostVerdict, value)
    known.update(
        processes=_processes(value),
        throughput=_throughput(value),
        steps=steps_from(value.get("steps")),
        energy=_energy(value),
    )
    return HostVerdict(**known)


def _processes(value: Mapping[str, Any]) -> ProcessSummary | None:
    processes = value.get("processes")
    return ProcessSummary(**_known(ProcessSummary, processes)) if processes else None


def _throughput(value: Mapping[str, Any]) -> Throughput | None:
    throughput = value.get("throughput")
    if not throughput:
        return None
    ranks = tuple(RankThroughput(**_known(RankThroughput, rank)) for rank in throughput.get("ranks", ()))
    known = _known(Throughput, throughput)
    known.update(ranks=ranks, windows=tuple(throughput.get("windows", ())))
    return Throughput(**known)


def _energy(value: Mapping[str, Any]) -> Energy | None:
    energy = value.get("energy")
    return Energy(**_known(Energy, energy)) if energy else None


def _gpu(value: Mapping[str, Any]) -> GpuVerdict:
    known = _known(GpuVerdict, value)
    window = value.get("active_window")
    series = value.get("series") or {}
    known.update(
        active_window=(window[0], window[1]) if window else None,
        series=Series(
            series.get("step_s", 1.0), *(tuple(series.get(name) or ()) for name in ("values", *SENSORS))
        ),
        intensity=intensity_from(value.get("intensity")),
        activity=activity_from(value.get("activity")),
    )
    return GpuVerdict(**known)


def _whole(values: Iterable[float | None]) -> list[int | None]:
    return [None if value is None else round(value) for value in values]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3) if abs(value) >= 1 else float(f"{value:.4g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(item) for item in value]
    return value
