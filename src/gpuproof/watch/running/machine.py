"""Watches all programs that use a GPU of this machine: who they are, and what their GPUs wait for."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Callable

from gpuproof.agent.verdict import Expectation, judge
from gpuproof.agent.verdict.recent import RecentActivity, Wait
from gpuproof.gpu.aggregate import TOO_EARLY_FOR_CUDA_S, Aggregator, idle_memory
from gpuproof.gpu.device_files import find_device_users
from gpuproof.gpu.nvml import LIBRARY_NOT_FOUND, GpuInfo, GpuReading, Nvml, NvmlUnavailable, library_present
from gpuproof.gpu.processes import ProcessTree, cpu_between, dev_shm, sees_host_pids
from gpuproof.gpu.sampler import cpu_count, foreign_pids, next_sample_time, read_rate
from gpuproof.gpu.telemetry import GpuTelemetry, NvmlState, Sample
from gpuproof.watch.running.attach import ENDING
from gpuproof.watch.running.machine_report import GpuUse, MachineReport, Program
from gpuproof.watch.running.process_facts import ProcessFacts, read_facts, workload_of
from gpuproof.watch.running.program_root import find_program_root
from gpuproof.watch.signals import SignalQueue

MOST_PROGRAMS = 16
"""Programs with a verdict of their own; more are counted."""
_INTERVAL_S = 1.0
_DEVICE_FILES_EVERY = 4
"""In containers, the open files of all processes are looked at in one of so many samples."""


@dataclass(frozen=True)
class ProgramNow:
    """What a program does now.

    Args:
        gpus: the indexes of the GPUs that it has opened.
        memory: bytes on them.
        cores: cores that it keeps busy; `rss` its resident bytes.
        waits: what its GPUs wait for, by index; without those that work.
    """

    root: ProcessFacts
    workload: str | None
    gpus: tuple[int, ...]
    memory: int | None
    cores: float | None
    rss: int | None
    waits: Mapping[int, Wait]


def watch_machine(seconds: float, begin: Callable[[], None] = lambda: None) -> MachineReport:
    """Watch for a time, or until a signal such as Ctrl-C.

    Args:
        begin: called once the GPUs are watched.

    Raises:
        NvmlUnavailable: the GPUs of this machine cannot be read.
    """
    with contextlib.closing(SignalQueue(ENDING)) as signals, contextlib.closing(MachineWatch()) as watch:
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        deadline = time.monotonic() + seconds
        begin()
        while True:
            watch.sample()
            left = deadline - time.monotonic()
            if left <= 0 or poll.poll(1000 * min(watch.next_wait(), left)):
                break
        return watch.report()


class MachineWatch:
    """Samples the GPUs once a second, and judges each program that uses them.

    NVML is read once for all programs; of each program, its processes are.

    Args:
        clock: monotonic clock, in seconds.

    Raises:
        NvmlUnavailable: the GPUs of this machine cannot be read.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        if not library_present():
            raise NvmlUnavailable("the NVIDIA driver is not installed", LIBRARY_NOT_FOUND)
        self._nvml = Nvml.open()
        self._gpus = self._nvml.gpus()
        self._driver = self._nvml.driver_version()
        self._comparable = sees_host_pids()
        self._own_workload = workload_of(os.getpid())
        self._clock = clock
        self._began = clock()
        self._started = time.time()
        self._last_t: float | None = None
        self._programs: dict[str, _WatchedProgram] = {}
        self._known: dict[int, str] = {}
        self._uncounted: set[int] = set()
        self._forgotten = 0
        self._device = self._aggregator(age_s=0.0)
        self._readings: tuple[GpuReading, ...] = ()
        self._users: Mapping[int, frozenset[int]] = {}
        self._samples = 0

    def next_wait(self) -> float:
        """Seconds until the next sample is due."""
        now = self._clock() - self._began
        return next_sample_time(now, _INTERVAL_S) - now

    def sample(self) -> None:
        """Take a sample."""
        t = self._clock() - self._began
        dt = 0.0 if self._last_t is None else t - self._last_t
        if not self._comparable and self._samples % _DEVICE_FILES_EVERY == 0:
            self._users = find_device_users()
        readings = tuple(self._read(gpu.index, dt) for gpu in self._gpus)
        self._find_programs(readings, t)
        for program in self._programs.values():
            program.add(t, readings)
            program.opened |= {minor for pid in program.members for minor in self._users.get(pid, ())}
        self._device.add(Sample(t, dt, readings, foreign_pids=foreign_pids(readings, frozenset())))
        self._readings, self._last_t = readings, t
        self._samples += 1

    @property
    def gpus(self) -> tuple[GpuInfo, ...]:
        """The constant properties of the GPUs."""
        return self._gpus

    @property
    def readings(self) -> tuple[GpuReading, ...]:
        """The newest readings of the GPUs; empty before the first sample."""
        return self._readings

    def programs_now(self) -> tuple[ProgramNow, ...]:
        """What the programs that use GPUs do now, without those that have ended."""
        running = [program for program in self._programs.values() if not program.has_ended()]
        return tuple(sorted((program.now(self._gpus) for program in running), key=_gpus_and_pid))

    def report(self) -> MachineReport:
        """Judge what has been sampled."""
        telemetry = self._device.telemetry()
        programs = [program.judged() for program in self._programs.values()]
        return MachineReport(
            host=socket.gethostname(),
            started=self._started,
            seconds=telemetry.seconds,
            driver_version=self._driver,
            gpus=tuple(self._use(gpu) for gpu in telemetry.gpus),
            programs=tuple(sorted(programs, key=lambda program: (program.gpus, program.pid))),
            more_processes=len(self._uncounted),
            ended_earlier=self._forgotten,
        )

    def close(self) -> None:
        """Close NVML."""
        self._nvml.close()

    def _read(self, index: int, dt: float) -> GpuReading:
        reading = self._nvml.read(index)
        if not self._comparable and reading.processes:
            # The ids may be the host's, and stand for other processes here.
            minor = self._gpus[index].minor
            own = tuple(item for item in reading.processes if minor in self._users.get(item[0], ()))
            reading = replace(reading, processes=own)
        pids = frozenset(pid for pid, _ in reading.processes or ())
        reading = self._nvml.with_counters(reading, pids)
        if len(pids) > 1:
            since = int((time.time() - max(dt, _INTERVAL_S)) * 1e6)
            reading = self._nvml.with_process_utilization(reading, since)
        return reading

    def _find_programs(self, readings: tuple[GpuReading, ...], t: float) -> None:
        listed = {pid for reading in readings for pid, _ in reading.processes or ()}
        if not self._comparable:
            listed = set(self._users)
        for pid in sorted(listed - self._known.keys()):
            if any(pid in program.members for program in self._programs.values()):
                continue
            root = find_program_root(pid)
            if root is None:  # of another container, or it has just ended
                continue
            workload = workload_of(root.pid)
            workload = None if workload == self._own_workload else workload
            key = workload or f"{root.pid} {root.start_ticks}"
            if key in self._programs:
                self._programs[key].add_root(root)
            elif len(self._programs) < MOST_PROGRAMS or self._forget_one():
                # It has opened a GPU already, which takes longer than the shortest time that counts.
                aggregator = self._aggregator(age_s=max(root.age, 2 * TOO_EARLY_FOR_CUDA_S))
                self._programs[key] = _WatchedProgram(root, workload, aggregator, len(self._gpus), t)
            else:
                self._uncounted.add(pid)  # until there is room
                continue
            self._uncounted.discard(pid)
            self._known[pid] = key
        # An id that is listed no more may come to stand for another process.
        self._known = {pid: key for pid, key in self._known.items() if pid in listed}

    def _forget_one(self) -> bool:
        """Make room for another program: the one that was found first of those that have ended; false if none has."""
        ended = next((key for key, program in self._programs.items() if program.has_ended()), None)
        if ended is None:
            return False
        del self._programs[ended]
        self._forgotten += 1
        return True

    def _aggregator(self, age_s: float) -> Aggregator:
        return Aggregator(
            self._gpus,
            nvml=NvmlState.AVAILABLE,
            driver_version=self._driver,
            pids_comparable=self._comparable,
            cpu_count=cpu_count(),
            first_step_s=_INTERVAL_S / 4,
            age_s=age_s,
        )

    def _use(self, gpu: GpuTelemetry) -> GpuUse:
        reading = self._readings[gpu.info.index] if self._readings else GpuReading(gpu.info.index)
        listed = [pid for pid, _ in reading.processes or ()]
        hidden = [pid for pid in listed if read_facts(pid) is None]
        used = reading.memory_used or 0
        is_used = gpu.device.busy_s > 0 or used > idle_memory(
            driver_left_out=reading.memory_reserved is not None
        )
        is_visible = gpu.visible_others_s > 0 or len(hidden) < len(listed)
        return GpuUse(
            index=gpu.info.index,
            name=gpu.info.name,
            uuid=gpu.info.uuid,
            utilization=100 * gpu.device.busy_s / gpu.readable_s
            if gpu.readable_s and gpu.utilization_known
            else None,
            memory_used=reading.memory_used,
            memory_total=gpu.info.memory_total,
            hidden_processes=len(hidden),
            processes_listed=self._comparable or is_visible,
            used_by_unknown=bool(hidden) or (is_used and not is_visible),
            error=reading.error,
        )


@dataclass
class _WatchedProgram:
    """A program whose samples are added up.

    Args:
        began: when it was found, in seconds since the watch began.
        members: its processes.
        opened: the minor numbers of the GPUs that it has opened, where NVML's list of processes cannot be read.
    """

    root: ProcessFacts
    workload: str | None
    aggregator: Aggregator
    gpu_count: int
    began: float
    members: frozenset[int] = frozenset()
    opened: frozenset[int] = frozenset()
    _last: Sample | None = None
    _memory: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._recent = RecentActivity(cpu_count=cpu_count())
        self._roots = {self.root.pid}
        self._tree = ProcessTree(self._roots, left_out=[os.getpid()], keep_orphans=True)

    def add_root(self, root: ProcessFacts) -> None:
        """Count another process and its descendants as the program's."""
        self._roots.add(root.pid)
        self._tree.set_roots(self._roots)

    def add(self, t: float, readings: tuple[GpuReading, ...]) -> None:
        """Add a sample of all GPUs."""
        tree = self._tree.read()
        last = self._last
        before = last.tree if last else None
        dt = t - self.began - last.t if last else 0.0
        pids = tree.pids if tree else frozenset[int]()
        sample = Sample(
            t=t - self.began,
            dt=dt,
            gpus=readings,
            tree=tree,
            cpu=cpu_between(before, tree, dt) if before and tree else None,
            read_rate=read_rate(before, tree, dt),
            shm=dev_shm(),
            foreign_pids=foreign_pids(readings, pids),
        )
        self.aggregator.add(sample)
        self._recent.add(sample)
        self.members, self._last = pids, sample
        for reading in readings:
            own = [(pid, memory) for pid, memory in reading.processes or () if pid in pids]
            if own:
                self._memory[reading.index] = sum(memory or 0 for _, memory in own)

    def has_ended(self) -> bool:
        """Whether it had no process in the last sample."""
        return self._last is not None and not self.members

    def now(self, gpus: tuple[GpuInfo, ...]) -> ProgramNow:
        """What it does now."""
        last = self._last or Sample(0.0)
        minors = {gpu.index: gpu.minor for gpu in gpus}
        own = {
            reading.index
            for reading in last.gpus
            if minors.get(reading.index) in self.opened
            or any(pid in self.members for pid, _ in reading.processes or ())
        }
        waits = self._recent.waits(gpus)
        return ProgramNow(
            root=self.root,
            workload=self.workload,
            gpus=tuple(sorted(own)),
            memory=sum(self._memory.values()) or None,
            cores=last.cpu.cores if last.cpu else None,
            rss=last.tree.rss if last.tree else None,
            waits={index: waits[index] for index in sorted(own & waits.keys())},
        )

    def judged(self) -> Program:
        """The verdict, on the GPUs that the program has used."""
        telemetry = self.aggregator.telemetry()
        held = tuple(gpu for gpu in telemetry.gpus if gpu.own_seen or gpu.info.minor in self.opened)
        expectation = Expectation(len(held), because="the GPUs that it has opened", required=False)
        verdict = judge(expectation, replace(telemetry, gpus=held))
        held_s = sum(gpu.own.held_s - gpu.own.unclear_s for gpu in held)
        return Program(
            pid=self.root.pid,
            user=self.root.user,
            command=self.root.command,
            workload=self.workload,
            since=self.root.started,
            has_ended=self.has_ended(),
            gpus=tuple(gpu.info.index for gpu in held),
            utilization=100 * sum(gpu.own.busy_s for gpu in held) / held_s if held_s > 0 else None,
            memory=sum(self._memory.values()) or None,
            verdict=verdict.to_json(),
        )


def _gpus_and_pid(program: ProgramNow) -> tuple[tuple[int, ...], int]:
    return program.gpus, program.root.pid
