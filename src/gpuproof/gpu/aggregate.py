"""Aggregates samples into the telemetry of a run: the job's GPU work, and activity while the GPUs waited."""

from __future__ import annotations

from dataclasses import replace

from gpuproof.gpu.gpu_stats import GpuStats, SensorSeries
from gpuproof.gpu.intensity import IntensityStats
from gpuproof.gpu.nvml import MIB, GpuInfo, GpuReading
from gpuproof.gpu.processes import ONE_CORE, BusyProcess, ShmReading, TreeReading
from gpuproof.gpu.telemetry import GpuTelemetry, NvmlState, ProcessTelemetry, Sample, Telemetry, Waiting

MIN_MEMORY_GROWTH = 64 * MIB
"""More memory in use than before the job by this much: some process uses the GPU. A CUDA context takes over 100 MiB by itself."""
TOO_EARLY_FOR_CUDA_S = 1.0
"""Seconds after its start in which a script cannot have a CUDA context yet: importing torch takes longer. Opening NVML may
take seconds itself if the driver's persistence mode is off."""
SETTLE_S = 1.0
"""NVML's utilization is a mean over a sample period of up to a second. Source: NVML, nvmlUtilization_t."""
DESKTOP_UTILIZATION = 15
"""Percent that a desktop takes of a GPU without a game or a video: what is above it is work of another kind."""
_UNSHARED = 0.9
"""A GPU whose utilization is the job's own for this share of it shows the job's intensity."""
_ONE_CORE_TOO_MANY = 1.5
_ALL_CORES = 0.85
_MUCH_READ = 100e6
"""Bytes per second; a default gp3 volume gives 125 MB/s (AWS EBS user guide)."""


class Aggregator:
    """Adds up samples; `telemetry()` returns the totals so far. Memory use does not grow with the length of the run.

    Args:
        cpu_count: how many cores the job may use.
        first_step_s: the first resolution of the series over time.
        age_s: seconds for which the job was running before the first sample, and may have been using a GPU.
        settles: whether this is a part of a job, and the part before it may still show: the first second of a GPU that was
            busy at the first sample is not counted.
    """

    def __init__(
        self,
        gpus: tuple[GpuInfo, ...] = (),
        *,
        nvml: NvmlState = NvmlState.NOT_QUERIED,
        nvml_reason: str | None = None,
        driver_version: str | None = None,
        pids_comparable: bool = False,
        visible_devices: str | None = None,
        cpu_count: int = 1,
        first_step_s: float = 1.0,
        age_s: float = 0.0,
        settles: bool = False,
    ) -> None:
        self._start = Telemetry(
            nvml=nvml,
            nvml_reason=nvml_reason,
            driver_version=driver_version,
            pids_comparable=pids_comparable,
            visible_devices=visible_devices,
        )
        self._gpus = [_GpuAggregator(info, first_step_s, age_s, settles) for info in gpus]
        self._waiting = WaitingAggregator(cpu_count)
        self._tree: ProcessTelemetry | None = None
        self._tree_before: TreeReading | None = None
        self._shm: ShmReading | None = None
        self._seconds = 0.0
        self._samples = 0
        self._problems: list[str] = []

    def add(self, sample: Sample) -> None:
        """Add a sample; samples must be added in chronological order."""
        self._samples += 1
        self._seconds = sample.t
        pids = sample.tree.pids if sample.tree else frozenset[int]()
        for record, reading in zip(self._gpus, sample.gpus):
            record.add(sample.t, sample.dt, reading, pids, sample.foreign_pids)
        self._add_tree(sample)
        if sample.shm and (self._shm is None or sample.shm.used > self._shm.used):
            self._shm = sample.shm
        own_seen = any(record.own_seen for record in self._gpus)
        held = [record for record in self._gpus if (record.own_now if own_seen else record.in_use)]
        self._waiting.add(sample, [record.utilization_now for record in held])

    def add_problem(self, text: str) -> None:
        """Record a problem with monitoring itself, once."""
        if text not in self._problems and len(self._problems) < 5:
            self._problems.append(text)

    def telemetry(self) -> Telemetry:
        """Return the totals so far."""
        return replace(
            self._start,
            seconds=self._seconds,
            samples=self._samples,
            gpus=tuple(record.telemetry() for record in self._gpus),
            tree=self._tree,
            waiting=self._waiting.waiting(),
            shm_peak=self._shm,
            problems=tuple(self._problems),
        )

    def _add_tree(self, sample: Sample) -> None:
        tree = sample.tree
        if tree is None:
            return
        if self._tree_before is None:
            # What processes did before they were watched does not count.
            self._tree_before = tree
        before = self._tree or ProcessTelemetry(0, 0.0, 0.0, None, None, 0)
        # The counters of a process that was not waited for disappear with it: totals never decrease.
        cpu_seconds = max(before.cpu_seconds, tree.cpu_seconds - self._tree_before.cpu_seconds)
        self._tree = ProcessTelemetry(
            peak_rss=max(before.peak_rss, tree.rss),
            cpu_seconds=cpu_seconds,
            mean_cores=cpu_seconds / sample.t if sample.t > 0 else 0.0,
            read_bytes=_most(before.read_bytes, _since(self._tree_before.read_bytes, tree.read_bytes)),
            written_bytes=_most(
                before.written_bytes, _since(self._tree_before.written_bytes, tree.written_bytes)
            ),
            peak_processes=max(before.peak_processes, len(tree.processes)),
        )


def idle_memory(*, driver_left_out: bool) -> int:
    """Upper limit of the bytes in use on an idle GPU; a CUDA context with its first tensors takes more.

    Args:
        driver_left_out: whether the driver's own memory, some 300 to 650 MiB, is not counted.
    """
    return 256 * MIB if driver_left_out else 1024 * MIB


class _GpuAggregator:
    """Totals of one GPU."""

    def __init__(self, info: GpuInfo, first_step_s: float, age_s: float, settles: bool) -> None:
        self._sum = GpuTelemetry(info)
        self._settles = settles
        self._age_s = age_s
        self._own = GpuStats(first_step_s)
        self._device = GpuStats(first_step_s)
        self._above_baseline = GpuStats(first_step_s)
        self._sensors = SensorSeries(first_step_s)
        self._own_intensity = IntensityStats()
        self._device_intensity = IntensityStats()
        self._idle_power_w: float | None = None
        self._ecc_errors_before: int | None = None
        self._least_memory: int | None = None
        self._own_pids: frozenset[int] = frozenset()
        self._begun = False
        self.own_seen = False
        self.own_now = False
        self.in_use = False
        self.utilization_now: int | None = None

    def telemetry(self) -> GpuTelemetry:
        return replace(
            self._sum,
            own=self._own.work(self._sensors),
            device=self._device.work(self._sensors),
            above_baseline=self._above_baseline.work(),
            intensity=(self._own_intensity if self.own_seen else self._device_intensity).intensity(
                idle_power_w=self._idle_power_w,
                power_limit_w=self._sum.info.power_limit_w,
                max_clock_mhz=self._sum.info.max_sm_clock_mhz,
            ),
            own_seen=self.own_seen,
        )

    def add(
        self, t: float, dt: float, reading: GpuReading, tree: frozenset[int], foreign_pids: frozenset[int]
    ) -> None:
        self._sensors.add(dt, reading)
        if reading.error is not None:
            self._add_failure(t, dt, reading.error)
            return
        listed = dict(reading.processes or ())
        # A process that has just ended may still be listed although it has left the tree.
        own = frozenset(pid for pid in listed if pid in tree or pid in self._own_pids)
        others = listed.keys() - own
        just_left = bool(self._own_pids) and not listed
        self._add_baseline(t, reading, bool(others))
        self._sum = replace(
            self._sum,
            last_memory=reading.memory_used,
            memory_rise=self._memory_rise(reading),
            energy_j=self._energy(dt, reading, is_others=bool(others) and not own),
            ecc_errors=self._new_ecc_errors(reading),
            readable_s=self._sum.readable_s + dt,
            lost_at_s=None,
            processes_listed=self._sum.processes_listed or reading.processes is not None,
            utilization_known=self._sum.utilization_known or reading.utilization is not None,
            visible_others_s=self._sum.visible_others_s + (dt if others & foreign_pids else 0.0),
            hidden_others_s=self._sum.hidden_others_s + (dt if others - foreign_pids else 0.0),
        )
        self.own_seen = self.own_seen or bool(own)
        self.own_now = bool(own)
        self.in_use = bool(listed) or self._memory_taken(reading)
        self._own_pids = own
        self._settles = self._settles and t <= SETTLE_S and bool(reading.utilization)
        if self._settles:
            self.utilization_now = None
            for stats in (self._device, self._above_baseline, self._own):
                stats.skip(dt)
            return
        self.utilization_now = reading.utilization
        self._device.add(
            t,
            dt,
            held=self.in_use,
            utilization=reading.utilization,
            memory=reading.memory_used,
            power_w=reading.power_w,
            throttle=reading.throttle,
        )
        self._above_baseline.add(
            t, dt, held=self.in_use, utilization=self._utilization_above_baseline(reading)
        )
        self._add_intensity(dt, reading, own, shared=bool(others))
        if own or just_left:
            self._own.add(
                t,
                dt,
                held=True,
                utilization=_own_utilization(reading, own, shared=bool(others)),
                memory=_own_memory(reading, [listed[pid] for pid in own], shared=bool(others)),
                power_w=reading.power_w,
                throttle=reading.throttle,
            )
        else:
            self._own.add(t, dt, held=False, utilization=0)

    def _add_intensity(self, dt: float, reading: GpuReading, own: frozenset[int], *, shared: bool) -> None:
        if reading.utilization is None:
            return
        if reading.utilization == 0:
            if reading.power_w is not None:
                self._idle_power_w = min(reading.power_w, self._idle_power_w or reading.power_w)
            return
        own_utilization = _own_utilization(reading, own, shared=shared) if own else 0
        unshared = own_utilization is not None and own_utilization >= _UNSHARED * reading.utilization
        for stats in (self._device_intensity, *([self._own_intensity] if unshared else [])):
            stats.add(
                dt,
                utilization=reading.utilization,
                counters=reading.counters,
                power_w=reading.power_w,
                memory_utilization=reading.memory_utilization,
                clock_mhz=reading.sm_clock_mhz,
                pcie_bytes_per_s=reading.pcie_bytes_per_s,
            )

    def _add_failure(self, t: float, dt: float, error: str) -> None:
        lost_at = self._sum.lost_at_s
        self._sum = replace(
            self._sum,
            unreadable_s=self._sum.unreadable_s + dt,
            lost_at_s=t if lost_at is None else lost_at,
            error=error,
        )
        self.own_now = self.in_use = False
        self.utilization_now = None
        self._own.skip(dt)
        self._device.skip(dt)

    def _add_baseline(self, t: float, reading: GpuReading, others: bool) -> None:
        if self._begun:
            return
        self._begun = True
        self._sum = replace(
            self._sum,
            baseline_s=self._age_s + t,
            baseline_memory=reading.memory_used,
            baseline_utilization=reading.utilization,
            baseline_reserved=reading.memory_reserved is not None,
            others_at_baseline=others,
        )

    def _new_ecc_errors(self, reading: GpuReading) -> int | None:
        if (count := reading.ecc_errors) is None:
            return self._sum.ecc_errors
        if self._ecc_errors_before is None or count < self._ecc_errors_before:  # a reset of the GPU
            self._ecc_errors_before = count
        return count - self._ecc_errors_before

    def _energy(self, dt: float, reading: GpuReading, *, is_others: bool) -> float | None:
        if reading.power_w is None or is_others:
            return self._sum.energy_j
        return (self._sum.energy_j or 0.0) + dt * reading.power_w

    def _memory_rise(self, reading: GpuReading) -> int:
        if (used := reading.memory_used) is None:
            return self._sum.memory_rise
        self._least_memory = used if self._least_memory is None else min(self._least_memory, used)
        return max(self._sum.memory_rise, used - self._least_memory)

    def _utilization_above_baseline(self, reading: GpuReading) -> int | None:
        before = self._sum.baseline_utilization
        if reading.utilization is None or before is None:
            return None
        return max(0, reading.utilization - max(before, DESKTOP_UTILIZATION))

    def _memory_taken(self, reading: GpuReading) -> bool:
        if reading.memory_used is None:
            return False
        before = self._sum.baseline_memory or 0
        if self._sum.baseline_s > TOO_EARLY_FOR_CUDA_S:
            # The job may have been using it already.
            before = min(before, idle_memory(driver_left_out=self._sum.baseline_reserved))
        return reading.memory_used - before >= MIN_MEMORY_GROWTH


def _own_utilization(reading: GpuReading, own: frozenset[int], *, shared: bool) -> int | None:
    """The job's share of a GPU's utilization; `None` if the GPU is shared and the shares are unknown."""
    if not shared or reading.utilization == 0:
        return reading.utilization
    if not reading.process_utilization:
        return None  # not supported, or no process had a sample although the GPU worked
    return min(sum(share for pid, share in reading.process_utilization if pid in own), 100)


def _own_memory(reading: GpuReading, own: list[int | None], *, shared: bool) -> int | None:
    known = [memory for memory in own if memory]
    if known and len(known) == len(own):
        return sum(known)
    return None if shared else reading.memory_used


class WaitingAggregator:
    """Totals of the activity while the job's GPUs waited."""

    def __init__(self, cpu_count: int) -> None:
        self._sum = Waiting(cpu_count=cpu_count)
        self._core_seconds: dict[tuple[int, str], tuple[float, float]] = {}
        self._saturated_s = 0.0
        self._read = 0.0
        self._cores_s = 0.0
        self._measured_s = 0.0

    def waiting(self) -> Waiting:
        busiest = max(self._core_seconds.items(), key=lambda item: item[1][0], default=None)
        total = replace(
            self._sum,
            saturated=self._saturated_s / self._sum.one_core_s if self._sum.one_core_s else 0.0,
            read_rate=self._read / self._sum.disk_s if self._sum.disk_s else 0.0,
            mean_cores=self._cores_s / self._measured_s if self._measured_s else 0.0,
        )
        if busiest is None:
            return total
        (pid, name), (seconds, cores_seconds) = busiest
        return replace(
            total,
            busiest_pid=pid,
            busiest_name=name,
            busiest_cores=cores_seconds / seconds if seconds else 0.0,
        )

    def add(self, sample: Sample, utilizations: list[int | None]) -> None:
        known = [utilization for utilization in utilizations if utilization is not None]
        if not known:
            return
        waited = sample.dt * (1 - min(sum(known) / len(known), 100) / 100)
        self._sum = replace(
            self._sum, held_s=self._sum.held_s + sample.dt, waiting_s=self._sum.waiting_s + waited
        )
        if sample.cpu is None or waited <= 0:
            return
        self._measured_s += waited
        self._cores_s += waited * sample.cpu.cores
        rate = sample.read_rate or 0.0
        if sample.cpu.waits_for_disk or rate >= _MUCH_READ:
            self._sum = replace(self._sum, disk_s=self._sum.disk_s + waited)
            self._read += waited * rate
        if self._sum.cpu_count > 1 and sample.cpu.cores >= _ALL_CORES * self._sum.cpu_count:
            self._sum = replace(self._sum, all_cores_s=self._sum.all_cores_s + waited)
            return
        busiest = sample.cpu.busiest
        if busiest and ONE_CORE <= busiest.cores <= _ONE_CORE_TOO_MANY:
            self._sum = replace(self._sum, one_core_s=self._sum.one_core_s + waited)
            self._saturated_s += waited * max(sample.cpu.saturated, 1)
            self._add_busiest(busiest, waited)

    def _add_busiest(self, busiest: BusyProcess, waited: float) -> None:
        key = (busiest.pid, busiest.name)
        seconds, cores_seconds = self._core_seconds.get(key, (0.0, 0.0))
        self._core_seconds[key] = (seconds + waited, cores_seconds + waited * busiest.cores)
        if len(self._core_seconds) > 64:
            # Short-lived workers must not pile up: drop the one with the least time.
            del self._core_seconds[min(self._core_seconds, key=lambda second: self._core_seconds[second][0])]


def _since(before: int | None, now: int | None) -> int | None:
    return now if before is None or now is None else now - before


def _most(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else max(a, b)
