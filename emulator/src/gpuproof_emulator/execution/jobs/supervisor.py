"""Runs each job in a thread of its own."""

from __future__ import annotations

import shutil
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from gpuproof_emulator.context import Context
from gpuproof_emulator.execution.jobs.job_control import JobControl
from gpuproof_emulator.execution.jobs.processing_job import ProcessingJobRun
from gpuproof_emulator.execution.jobs.training_job import TrainingJobRun, add_transition, end_transition
from gpuproof_emulator.execution.jobs.transform_job import TransformJobRun
from gpuproof_emulator.job_kinds import JOB_KINDS, JobKind
from gpuproof_emulator.protocol import now
from gpuproof_emulator.store import PROCESSING, TRAINING, TRANSFORM, Resource

_INTERNAL_ERROR = "InternalServerError: We encountered an internal error. Please try again. ({why})"

RunJob = Callable[[Context, Resource, JobControl, Path], None]

_RUNNERS: dict[str, RunJob] = {
    TRAINING: lambda context, job, control, folder: TrainingJobRun(context, job, control, folder).run(),
    PROCESSING: lambda context, job, control, folder: ProcessingJobRun(context, job, control, folder).run(),
    TRANSFORM: lambda context, job, control, folder: TransformJobRun(context, job, control, folder).run(),
}


class JobSupervisor:
    """Starts jobs, stops them, and ends them with the emulator.

    Args:
        context: the emulator's shared state.
        runners: what runs a job in its thread, by the kind of resource.
    """

    def __init__(self, context: Context, runners: dict[str, RunJob] | None = None) -> None:
        self._context = context
        self._runners = runners or _RUNNERS
        self._controls: dict[tuple[str, str, str], JobControl] = {}
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def start(self, job: Resource) -> None:
        """Run a new job in the background."""
        control = JobControl()
        thread = threading.Thread(target=self._run, args=(job, control), name=job.name, daemon=True)
        with self._lock:
            self._controls[_key(job)] = control
            if job.document[_kind(job).status_member] == "Stopping":
                control.stop()  # the stop request came between the job's creation and this
            self._threads = [*(old for old in self._threads if old.is_alive()), thread]
            thread.start()

    def stop(self, job: Resource) -> bool:
        """Request that a job stops, and set its status to Stopping.

        Returns:
            False if the job had ended or was already stopping.
        """
        status = _kind(job).status_member
        with self._context.store.modify(job):
            # Checked inside the lock: otherwise a job that has just ended would stay Stopping.
            if job.document[status] != "InProgress":
                return False
            job.document[status] = "Stopping"
            if job.kind == TRAINING:
                add_transition(job.document, "Stopping", StatusMessage="Stopping the training job")
        control = self._controls.get(_key(job))
        if control is not None:
            control.stop()
        return True

    def fail_lost(self) -> None:
        """Fail the jobs that were running when the emulator last ended."""
        for job in self._context.store.all():
            if job.kind in JOB_KINDS and _kind(job).is_active(job):
                self._fail(job, "the emulator ended while the job ran")
        shutil.rmtree(self._folder, ignore_errors=True)

    def shutdown(self) -> None:
        """End all jobs, and wait until their processes and files are gone."""
        with self._lock:
            controls, threads = list(self._controls.values()), list(self._threads)
        for control in controls:
            control.shutdown()
        for thread in threads:
            thread.join()

    @property
    def _folder(self) -> Path:
        return self._context.options.state / "instances"

    def _run(self, job: Resource, control: JobControl) -> None:
        folder = self._folder / job.region / job.kind / job.name
        try:
            self._runners[job.kind](self._context, job, control, folder)
        except Exception as error:  # noqa: BLE001 - after any error, the job must not stay InProgress
            if not control.shut_down:
                traceback.print_exc(file=sys.stderr)
            self._fail(job, f"{type(error).__name__}: {error}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            with self._lock:
                self._controls.pop(_key(job), None)

    def _fail(self, job: Resource, why: str) -> None:
        kind = _kind(job)
        with self._context.store.modify(job):
            job.document[kind.status_member] = "Failed"
            job.document["FailureReason"] = _INTERNAL_ERROR.format(why=why)
            if job.kind == TRAINING:
                add_transition(job.document, "Failed")
                job.document[kind.end_member] = end_transition(job.document)
            else:
                job.document[kind.end_member] = now()


def _kind(job: Resource) -> JobKind:
    return JOB_KINDS[job.kind]


def _key(job: Resource) -> tuple[str, str, str]:
    return job.kind, job.region, job.name
