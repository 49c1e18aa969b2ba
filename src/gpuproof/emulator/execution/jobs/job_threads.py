"""A thread for each job that goes on."""

from __future__ import annotations

import shutil
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuproof.emulator.arns import PROCESSING, TRAINING
from gpuproof.emulator.execution.jobs.job_control import Control
from gpuproof.emulator.protocol import now
from gpuproof.emulator.store import Resource

if TYPE_CHECKING:
    from gpuproof.emulator.emulator import Emulator

_LOST = "InternalServerError: We encountered an internal error. Please try again. ({why})"


class Supervisor:
    """Carries jobs out.

    Args:
        emulator: everything there is.
    """

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._controls: dict[tuple[str, str, str], Control] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def train(self, job: Resource) -> None:
        """Carry a training job out."""
        from gpuproof.emulator.execution.jobs.training_job import TrainingRun

        self._start(job, lambda control, folder: TrainingRun(self._emulator, job, control, folder).run())

    def process(self, job: Resource) -> None:
        """Carry a processing job out."""
        from gpuproof.emulator.execution.jobs.processing_job import ProcessingRun

        self._start(job, lambda control, folder: ProcessingRun(self._emulator, job, control, folder).run())

    def stop(self, job: Resource) -> bool:
        """Have a job stopped; it says so at once. False if it had ended, or was stopping already."""
        moment = now()
        with self._emulator.store.changing(job):
            # Asked here: a job that ended a moment ago would be Stopping for ever.
            if job.document[_status(job)] != "InProgress":
                return False
            job.document[_status(job)] = "Stopping"
            if job.kind == TRAINING:
                job.document["SecondaryStatus"] = "Stopping"
                transitions = job.document["SecondaryStatusTransitions"]
                transitions[-1].setdefault("EndTime", moment)
                transitions.append(
                    {"Status": "Stopping", "StartTime": moment, "StatusMessage": "Stopping the training job"}
                )
        control = self._controls.get((job.kind, job.region, job.name))
        if control is not None:
            control.stop()
        return True

    def fail_lost(self) -> None:
        """Fail the jobs that went on when the emulator last ended."""
        for job in self._emulator.store.all():
            if job.kind in (TRAINING, PROCESSING) and job.document[_status(job)] in (
                "InProgress",
                "Stopping",
            ):
                self._fail(job, "the emulator ended while the job ran")
        shutil.rmtree(self._instances, ignore_errors=True)

    def shutdown(self) -> None:
        """End all jobs and wait until nothing of them is left."""
        with self._lock:
            controls, threads = list(self._controls.values()), list(self._threads)
        for control in controls:
            control.shutdown()
        for thread in threads:
            thread.join()

    @property
    def _instances(self) -> Path:
        return self._emulator.options.state / "instances"

    def _start(self, job: Resource, work: Callable[[Control, Path], None]) -> None:
        control = Control()
        folder = self._instances / job.region / job.kind / job.name
        thread = threading.Thread(
            target=self._work, args=(job, control, folder, work), name=job.name, daemon=True
        )
        with self._lock:
            self._controls[job.kind, job.region, job.name] = control
            if job.document[_status(job)] == "Stopping":
                control.stop()  # it came between the job's creation and this
            self._threads = [*(old for old in self._threads if old.is_alive()), thread]
            thread.start()

    def _work(
        self, job: Resource, control: Control, folder: Path, work: Callable[[Control, Path], None]
    ) -> None:
        try:
            work(control, folder)
        except Exception as error:  # noqa: BLE001 - whatever it is, the job must not be InProgress for ever
            if not control.shut_down:
                traceback.print_exc(file=sys.stderr)
            self._fail(job, f"{type(error).__name__}: {error}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with self._lock:
                self._controls.pop((job.kind, job.region, job.name), None)

    def _fail(self, job: Resource, why: str) -> None:
        moment = now()
        with self._emulator.store.changing(job):
            job.document[_status(job)] = "Failed"
            job.document["FailureReason"] = _LOST.format(why=why)
            job.document["TrainingEndTime" if job.kind == TRAINING else "ProcessingEndTime"] = moment
            if job.kind == TRAINING:
                job.document["SecondaryStatus"] = "Failed"
                transitions = job.document["SecondaryStatusTransitions"]
                transitions[-1].setdefault("EndTime", moment)
                transitions.append({"Status": "Failed", "StartTime": moment, "EndTime": moment})


def _status(job: Resource) -> str:
    return "TrainingJobStatus" if job.kind == TRAINING else "ProcessingJobStatus"
