"""The GPUs of this machine as a stream of snapshots, with the programs that use them."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuproof.agent.verdict.recent import UNUSED, Wait
from gpuproof.app.live_view.snapshot import (
    HISTORY,
    HostView,
    ProgramView,
    Readings,
    Snapshot,
    gpu_view,
    history_values,
)
from gpuproof.errors import ExitCode, GPUproofError
from gpuproof.gpu.history import History
from gpuproof.gpu.nvml import NvmlUnavailable
from gpuproof.watch.running.machine import MachineWatch, ProgramNow

_TICKS = os.sysconf("SC_CLK_TCK")
_FIRST_S = 4.0
_IDLE = (3, 4)
"""Fields of /proc/stat for idle time and time waiting for a disk: proc_stat(5)."""


class NoGpus(GPUproofError):
    """The GPUs of this machine cannot be read."""

    exit_code = ExitCode.UNDECIDED


class MachineView:
    """This machine, as long as it is looked at; close it, or use it in a `with` statement.

    Args:
        history: values of each GPU to keep.

    Raises:
        NoGpus: the GPUs cannot be read.
    """

    def __init__(self, *, history: int = HISTORY) -> None:
        try:
            self._watch = MachineWatch()
        except NvmlUnavailable as error:
            raise NoGpus(
                f"The GPUs of this machine cannot be read: {error.reason}.",
                remedy="`gpuproof doctor` finds out why; `gpuproof top RUN` shows the GPUs of a run.",
            ) from error
        if not self._watch.gpus:
            self._watch.close()
            raise NoGpus(
                "The NVIDIA driver finds no GPU on this machine.",
                remedy="`gpuproof doctor` finds out why; `gpuproof top RUN` shows the GPUs of a run.",
            )
        self._name = socket.gethostname()
        self._history = History(history)
        self._began = time.monotonic()
        self._cpu: tuple[float, float] | None = None
        self._stopping = threading.Event()

    def __enter__(self) -> MachineView:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End `snapshots`, which closes NVML."""
        self._stopping.set()

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield a snapshot a second, until `close`."""
        try:
            while not self._stopping.is_set():
                self._watch.sample()
                yield self._snapshot()
                self._stopping.wait(self._watch.next_wait())
        finally:
            self._watch.close()

    def first(self) -> Snapshot:
        """A snapshot after some seconds, so that it is known what the GPUs wait for."""
        found = Snapshot("machine", self._name)
        for found in self.snapshots():
            if (found.seconds or 0.0) >= _FIRST_S:
                self.close()
        return found

    def _snapshot(self) -> Snapshot:
        seconds = time.monotonic() - self._began
        infos = {info.index: info for info in self._watch.gpus}
        programs = self._watch.programs_now()
        waits = {index: wait for program in programs for index, wait in program.waits.items()}
        gpus: list[tuple[str, Mapping[str, Any]]] = []
        for reading in self._watch.readings:
            wait = waits.get(reading.index)
            values = {name: value for name, value in vars(reading).items() if value is not None}
            info = infos[reading.index]
            total = reading.memory_total or info.memory_total
            if wait is None and reading.processes == () and reading.utilization == 0:
                wait = Wait(UNUSED, "no process uses it")
            known = {
                "name": info.name,
                "memory_total": total,
                "waiting_for": wait.to_json() if wait else None,
            }
            gpus.append((self._name, {**values, **known}))
        self._history.add(seconds, history_values(gpus))
        memory = _memory()
        host = HostView(
            self._name,
            tuple(gpu_view(self._name, gpu, self._history) for _, gpu in gpus),
            cores=self._cores(),
            cpu_count=os.cpu_count(),
            rss=memory[0] if memory else None,
            memory_total=memory[1] if memory else None,
            programs=tuple(map(_program, programs)),
        )
        return Snapshot(
            "machine",
            self._name,
            seconds=seconds,
            hosts=(host,),
            times=self._history.times,
            readings=Readings("nvml", newest=time.time()),
        )

    def _cores(self) -> float | None:
        """Cores that all processes kept busy since the last snapshot; `None` at first."""
        now, busy = time.monotonic(), _busy_seconds()
        if busy is None:
            return None
        before, self._cpu = self._cpu, (now, busy)
        if before is None or now <= before[0]:
            return None
        return max(0.0, busy - before[1]) / (now - before[0])


def _program(program: ProgramNow) -> ProgramView:
    wait = next(iter(program.waits.values()), None)
    return ProgramView(
        pid=program.root.pid,
        user=program.root.user,
        command=program.root.command,
        workload=program.workload,
        gpus=program.gpus,
        memory=program.memory,
        cores=program.cores,
        rss=program.rss,
        waiting_for=wait.to_json() if wait else None,
    )


def _busy_seconds() -> float | None:
    """CPU time of this machine that was not idle."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    return sum(int(value) for number, value in enumerate(fields) if number not in _IDLE) / _TICKS


def _memory() -> tuple[int, int] | None:
    """Bytes of memory in use and in total: proc_meminfo(5)."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        values = {
            name: int(text.split()[0]) * 1024 for name, _, text in (line.partition(":") for line in lines)
        }
        return values["MemTotal"] - values["MemAvailable"], values["MemTotal"]
    except (OSError, KeyError, ValueError, IndexError):
        return None
