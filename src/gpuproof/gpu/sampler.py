"""A thread that samples the GPUs and the job's processes once a second."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Callable

from gpuproof.gpu.aggregate import Aggregator
from gpuproof.gpu.intensity.dcgm import Dcgm, open_dcgm
from gpuproof.gpu.nvml import LIBRARY, LIBRARY_NOT_FOUND, GpuReading, Nvml, NvmlUnavailable, library_present
from gpuproof.gpu.processes import (
    ProcessTree,
    TreeReading,
    cpu_between,
    dev_shm,
    sees_host_pids,
)
from gpuproof.gpu.telemetry import NvmlState, Sample, Telemetry

EARLY_S = 3.0
"""Intervals at the start with four samples each, so that even a script of two seconds is measured."""
_STOP_TIMEOUT_S = 10.0
_ECC_SAMPLES = 60
"""Memory errors are counted in one of so many samples, and in the last one."""
_MIN_COUNTER_S = 0.1
"""Performance counters are refreshed about so often. Source: NVML, nvmlGpmMetricsGet."""
FIRST_READING_TIMEOUT_S = 3.0
"""How long the script waits for the first reading: without persistence mode, the driver takes seconds to open."""


class Sampler:
    """Samples one job between `start()` and `stop()`, which returns the telemetry; `telemetry()` returns it so far.

    `read_first()` takes the first sample before the job does anything; without it, the job may have begun its work then.

    Args:
        roots: the process at the top of the job's process tree, or of each of its trees.
        left_out: processes of these trees that are not the job's, such as the one that samples.
        on_sample: called in the sampler's thread after each sample; its exceptions are recorded as problems.
        interval_s: seconds between two samples.
        visible_devices: the job's `CUDA_VISIBLE_DEVICES`, kept in the telemetry.
        sees_host_pids: whether process ids here are the host's; detected if `None`.
        clock: monotonic clock, in seconds.
        wait: waits for a number of seconds, or until `stop()`; replaced in tests.
        open_dcgm: finds the performance counters of GPUs for which NVML has none.
        age_s: seconds for which the job was running already; `None` if it starts later. Of a running job, the first sample shows
            what it may have been using before, and its orphans, which this process cannot adopt, stay in its trees.
        settles: see `Aggregator`.
    """

    def __init__(
        self,
        roots: int | Iterable[int],
        on_sample: Callable[[Sample], None] | None = None,
        interval_s: float = 1.0,
        *,
        left_out: Iterable[int] = (),
        visible_devices: str | None = None,
        sees_host_pids: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
        open_dcgm: Callable[[], Dcgm | None] = open_dcgm,
        age_s: float | None = None,
        settles: bool = False,
    ) -> None:
        self._tree = ProcessTree(roots, left_out=left_out, keep_orphans=age_s is not None)
        self._age_s = age_s or 0.0
        self._settles = settles
        self._on_sample = on_sample
        self._interval = interval_s
        self._visible_devices = visible_devices
        self._sees_host_pids = sees_host_pids
        self._clock = clock
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._lock = threading.Lock()
        self._aggregator = Aggregator()
        self._nvml: Nvml | None = None
        self._open_dcgm = open_dcgm
        self._dcgm: Dcgm | None = None
        self._gpu_indexes: range = range(0)
        self._began = 0.0
        self.began_at = 0.0
        """When sampling began, as Unix time."""
        self._last: Sample | None = None
        self._samples = 0
        self._last_query_us: dict[int, int] = {}
        self._first_taken = threading.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpuproof-sampler", daemon=True)

    def set_roots(self, roots: Iterable[int], left_out: Iterable[int] | None = None) -> None:
        """Replace the processes at the top of the job's trees, and those left out; any thread may do so."""
        self._tree.set_roots(roots, left_out)

    def set_visible_devices(self, devices: str | None) -> None:
        """Replace the job's `CUDA_VISIBLE_DEVICES` in the telemetry."""
        self._visible_devices = devices

    def read_first(self, timeout: float = FIRST_READING_TIMEOUT_S) -> bool:
        """Take the first sample, and wait for `start()` with the next one; false if it was not taken in time.

        Args:
            timeout: in seconds.
        """
        self._began, self.began_at = self._clock(), time.time()
        self._thread.start()
        return self._first_taken.wait(timeout)

    def start(self) -> None:
        """Start sampling. NVML is opened in the thread, so this returns at once."""
        self._began, self.began_at = self._clock(), time.time()
        self._started.set()
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> Telemetry:
        """Take a last sample, end the thread and return the telemetry. May be called again."""
        self._stopping.set()
        self._started.set()
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT_S)
        if self._thread.is_alive():
            self._record_problem(
                f"NVML did not respond within {_STOP_TIMEOUT_S:.0f} s of the end; the last sample is missing"
            )
        return self.telemetry()

    def telemetry(self) -> Telemetry:
        """Return the telemetry so far; thread-safe."""
        with self._lock:
            return self._aggregator.telemetry()

    def _run(self) -> None:
        try:
            self._open()
            self._take_sample()
            self._first_taken.set()
            self._started.wait()
            # Even a job that has ended already is sampled once after its start.
            while True:
                now = self._clock() - self._began
                self._wait(next_sample_time(now, self._interval) - now)
                self._take_sample()
                if self._stopping.is_set():
                    return
        finally:
            if self._dcgm is not None:
                self._dcgm.close()
            if self._nvml is not None:
                self._nvml.close()

    def _open(self) -> None:
        state, reason, driver = NvmlState.AVAILABLE, None, None
        gpus = ()
        try:
            if not library_present():
                raise NvmlUnavailable(f"{LIBRARY} is not found", LIBRARY_NOT_FOUND)
            self._nvml = Nvml.open()
            gpus = self._nvml.gpus()
            driver = self._nvml.driver_version()
            if not all(self._nvml.counts_performance(gpu.index) for gpu in gpus):
                self._dcgm = self._open_dcgm()
        except NvmlUnavailable as error:
            state, reason = (NvmlState.MISSING if error.library_missing else NvmlState.FAILED), error.reason
        comparable = sees_host_pids() if self._sees_host_pids is None else self._sees_host_pids
        self._gpu_indexes = range(len(gpus))
        aggregator = Aggregator(
            gpus,
            nvml=state,
            nvml_reason=reason,
            driver_version=driver,
            pids_comparable=comparable,
            visible_devices=self._visible_devices,
            cpu_count=cpu_count(),
            first_step_s=self._interval / 4,
            age_s=self._age_s,
            settles=self._settles,
        )
        with self._lock:
            self._aggregator = aggregator

    def _take_sample(self) -> None:
        try:
            sample = self._sample()
            with self._lock:
                self._aggregator.add(sample)
        except Exception as error:  # noqa: BLE001 - monitoring may fail without failing the job
            self._record_problem(f"a sample failed: {type(error).__name__}: {error}")
            return
        if self._on_sample is None:
            return
        try:
            self._on_sample(sample)
        except Exception as error:  # noqa: BLE001 - as above
            self._record_problem(f"handling a sample failed: {type(error).__name__}: {error}")

    def _sample(self) -> Sample:
        tree = self._tree.read()
        # Before the job starts, the time is 0, however long NVML took to open.
        t = self._clock() - self._began if self._started.is_set() else 0.0
        last = self._last
        dt = t - last.t if last else 0.0
        pids = tree.pids if tree else frozenset[int]()
        if self._dcgm is not None:
            self._dcgm.refresh()
        counts = last is None or dt >= _MIN_COUNTER_S
        readings = tuple(self._read_gpu(index, pids, counts=counts) for index in self._gpu_indexes)
        self._samples += 1
        before = last.tree if last else None
        sample = Sample(
            t=t,
            dt=dt,
            gpus=readings,
            tree=tree,
            cpu=cpu_between(before, tree, dt) if before and tree else None,
            read_rate=read_rate(before, tree, dt),
            shm=dev_shm(),
            foreign_pids=foreign_pids(readings, pids),
        )
        self._last = sample
        return sample

    def _read_gpu(self, index: int, tree: frozenset[int], *, counts: bool) -> GpuReading:
        assert self._nvml is not None
        reading = self._nvml.read(index)
        if counts:
            reading = self._nvml.with_counters(reading, tree, self._dcgm)
        # PCIe traffic takes 40 ms to read: of one GPU at a time, and only where no counter has it.
        turn = self._samples % len(self._gpu_indexes) == index
        counted = reading.counters is not None or self._nvml.counts_performance(index)
        if turn and reading.utilization and not counted:
            reading = self._nvml.with_pcie(reading)
        if self._samples % _ECC_SAMPLES == 0 or self._stopping.is_set():
            reading = self._nvml.with_ecc_errors(reading)
        own = sum(pid in tree for pid, _ in reading.processes or ())
        if own and own < len(reading.processes or ()):
            now_us = int(time.time() * 1e6)
            since = self._last_query_us.get(index, now_us - int(self._interval * 1e6))
            self._last_query_us[index] = now_us
            return self._nvml.with_process_utilization(reading, since)
        return reading

    def _record_problem(self, text: str) -> None:
        with self._lock:
            self._aggregator.add_problem(text)


def next_sample_time(now: float, interval_s: float) -> float:
    """When to take the next sample, in seconds since the start: on a fixed grid, which avoids drift.

    Samples that were missed, because one took too long or the machine was suspended, are skipped.
    """
    step = interval_s / 4 if now < (EARLY_S - 0.25) * interval_s else interval_s
    return (int(now / step + 0.01) + 1) * step


def read_rate(before: TreeReading | None, after: TreeReading | None, seconds: float) -> float | None:
    """Bytes per second that a tree read from storage between two readings; `None` if unknown."""
    if before is None or after is None or seconds <= 0:
        return None
    if before.read_bytes is None or after.read_bytes is None:
        return None
    return max(after.read_bytes - before.read_bytes, 0) / seconds


def foreign_pids(readings: tuple[GpuReading, ...], tree: frozenset[int]) -> frozenset[int]:
    """Processes that use a GPU, are visible here and do not belong to the job."""
    listed = {pid for reading in readings for pid, _ in reading.processes or ()}
    return frozenset(pid for pid in listed - tree if Path(f"/proc/{pid}").exists())


def cpu_count() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
