"""Passes a run's series and summary to its sinks. It never raises, and waits for the sinks at the end only, for a limited time."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable

from gpuproof.agent.contract import code_folder
from gpuproof.agent.job import AgentJob
from gpuproof.agent.monitor import read_documents
from gpuproof.agent.paths import CONTRACT_ROOT, ContractPaths, RunPaths
from gpuproof.agent.sinks.event_files import find_event_folder
from gpuproof.agent.sinks.main import PACKAGES, SINK
from gpuproof.agent.sinks.metrics import Point, Run, summary_of
from gpuproof.agent.sinks.process import SinkProcess
from gpuproof.agent.sinks.series import Series
from gpuproof.agent.state import STOPPED
from gpuproof.gpu.telemetry import Sample

INTERVAL_S = 10.0
"""Between two points."""
END_S = 30.0
"""How long the sinks may take at the end of a run; `HURRIED_END_S` if it was stopped: SageMaker kills a container soon."""
HURRIED_END_S = 4.0

_TENSORBOARD = "tensorboard"
_MOST_POINTS = 8192
"""Points that are kept for a sink that starts later: a day."""
_FILE_TIMES_S = 1.0
"""Times of files lag behind the clock by some milliseconds, or are whole seconds."""
_SETTINGS = ("WANDB_", "MLFLOW_", "TRACKIO_", "OTEL_")
"""Variables that may contain paths of the script."""
_LONGEST_DOCUMENT = 1 << 20
"""Bytes."""
_AGENT = Path(__file__).parents[3]


class Export:
    """The sinks of a run.

    Args:
        environment: the script's variables, which configure the packages.
        series: computes the points.
        started: when the script was started, in seconds since the epoch.
        clock: seconds since the epoch.
        agent: the agent's archive.
    """

    def __init__(
        self,
        job: AgentJob,
        paths: RunPaths,
        environment: Mapping[str, str],
        series: Series,
        started: float,
        clock: Callable[[], float] = time.time,
        agent: Path = _AGENT,
    ) -> None:
        self._job = job
        self._paths = paths
        self._environment = _outside(environment, job, paths)
        self._series = series
        self._clock = clock
        self._agent = agent
        self._started = started - _FILE_TIMES_S
        self._seconds = 0.0
        self._next = INTERVAL_S
        self._next_search = INTERVAL_S
        self._points: list[Point] = []
        self._processes: list[SinkProcess] = []
        self._notes: list[str] = []
        self._lock = threading.Lock()
        self._begun = False

    @classmethod
    def of(cls, job: AgentJob, paths: RunPaths, environment: Mapping[str, str], started: float) -> Export:
        """The sinks of a job."""
        series = Series(
            lambda: read_documents(paths.throughput, _LONGEST_DOCUMENT),
            lambda: read_documents(paths.steps, _LONGEST_DOCUMENT),
        )
        return cls(job, paths, environment, series, started)

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of the sinks."""
        return tuple(process.pid for process in self._processes)

    def on_sample(self, sample: Sample) -> None:
        """Add a sample; called in the sampler's thread."""
        with self._lock:
            self._series.add(sample)
            self._seconds = sample.t
            if sample.t >= self._next:
                self._next = sample.t + INTERVAL_S
                self._take_point()

    def report(
        self, verdict: Mapping[str, Any], status: str, exit_code: int
    ) -> tuple[dict[str, str], list[str]]:
        """Send the verdict's numbers, as `finish`; returns errors as notes.

        Args:
            status: of the run, as SageMaker names it.
        """
        limit_s = HURRIED_END_S if status == STOPPED else END_S
        try:
            return self.finish(summary_of(verdict, status, exit_code), verdict, limit_s)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not harm the run
            return {}, [f"the sinks failed: {type(error).__name__}: {error}"]

    def finish(
        self, summary: Mapping[str, float | str], verdict: Mapping[str, Any], limit_s: float
    ) -> tuple[dict[str, str], list[str]]:
        """Send the rest and the summary, and wait for the sinks; returns where the values of each are, and notes.

        Args:
            limit_s: how long that may take in all, in seconds.
        """
        deadline = time.monotonic() + limit_s
        with self._lock:
            self._take_point(at_end=True)
        for process in self._processes:
            process.send({"summary": summary, "verdict": verdict}, droppable=False)
        self._flush(deadline)
        for process in self._processes:
            process.close()
        locations: dict[str, str] = {}
        for process in self._processes:
            location, notes = process.wait(deadline)
            self._notes += notes
            if location is not None:
                locations[process.name] = location
        return locations, self._notes

    def _flush(self, deadline: float) -> None:
        while pending := [process for process in self._processes if process.is_pending]:
            _, writable, _ = select.select([], pending, [], max(0.0, deadline - time.monotonic()))
            if not writable:
                return
            for process in writable:
                process.flush()

    def _take_point(self, *, at_end: bool = False) -> None:
        if not self._begun:
            self._begun = True
            for entry in self._job.sinks:
                name, _, target = entry.partition("=")
                if name != _TENSORBOARD:
                    self._start(name, target or None)
        point = self._series.take(self._clock(), self._seconds)
        if point.values:
            self._points.append(point)
            del self._points[:-_MOST_POINTS]
            for process in self._processes:
                process.send({"point": point.to_json()})
        self._look_for_event_files(at_end=at_end)

    def _look_for_event_files(self, *, at_end: bool) -> None:
        """Start the sink for TensorBoard once the script has written event files; looked for ever less often."""
        if any(process.name == _TENSORBOARD for process in self._processes):
            return
        if self._seconds < self._next_search and not at_end:
            return
        self._next_search = 2 * self._seconds
        folder = find_event_folder(self._paths.ml, self._started)
        if folder is None and at_end and _TENSORBOARD in self._job.sinks:
            folder = Path(self._output())
        if folder is not None and (process := self._start(_TENSORBOARD, str(folder))) is not None:
            for point in self._points:
                process.send({"point": point.to_json()})

    def _start(self, name: str, target: str | None) -> SinkProcess | None:
        folder = self._paths.root / "sinks"
        report = folder / f"{name}.json"
        run = Run(
            id=self._job.run_id,
            job_name=self._job.job_name,
            host=self._job.current_host,
            hosts=len(self._job.hosts),
            started=self._started,
            contract=str(self._paths.ml),
            code=str(self._paths.ml / code_folder(self._job)),
            output=self._output(),
            entry_point=self._job.entry_point,
            instance_type=self._job.instance_type,
            target=target,
        )
        python = self._job.python if name in PACKAGES else sys.executable
        try:
            folder.mkdir(exist_ok=True)
            process = SinkProcess(
                name,
                [python, str(self._agent), SINK],
                self._environment,
                run.code,
                report,
                folder / f"{name}.log",
            )
        except OSError as error:
            self._notes.append(f"sink {name}: it could not be started: {error.strerror or error}")
            return None
        process.send({"sink": name, "report": str(report), "run": asdict(run)}, droppable=False)
        self._processes.append(process)
        return process

    def _output(self) -> str:
        """A folder whose files become part of the run's output, where a job has such a folder."""
        if self._job.kind != "training":
            return str(self._paths.root / "sinks")
        return str(self._paths.ml / "output" / "data" / "gpuproof")


def _outside(environment: Mapping[str, str], job: AgentJob, paths: RunPaths) -> dict[str, str]:
    """The script's variables for a process outside of its mount namespace, without the script's own modules."""
    folders: Iterable[str] = environment.get("PYTHONPATH", "").split(os.pathsep)
    own = [folder for folder in folders if folder and not _is_below(folder, (CONTRACT_ROOT, str(paths.ml)))]
    settings = {name: value for name, value in environment.items() if name.startswith(_SETTINGS)}
    if paths.ml != Path(CONTRACT_ROOT):
        seen = ContractPaths().checkpoints
        settings = {
            name: value.replace(seen, job.checkpoints or seen).replace(CONTRACT_ROOT, str(paths.ml))
            for name, value in settings.items()
        }
    return {**environment, **settings, "PYTHONPATH": os.pathsep.join(own)}


def _is_below(folder: str, roots: Iterable[str]) -> bool:
    return any(folder == root or folder.startswith(f"{root}/") for root in roots)
