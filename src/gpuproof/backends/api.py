"""Runs a job from Python: `gpuproof.run(job, on="local")`, `gpuproof.run(job, on="sagemaker")`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, overload

from gpuproof.backends.base import Output, PlanOptions, Run
from gpuproof.backends.progress import SilentProgress
from gpuproof.backends.registry import load_backend, reject_foreign_flags
from gpuproof.jobs.local_paths import resolve_paths
from gpuproof.jobs.spec import Job

if TYPE_CHECKING:
    from gpuproof.backends.local.run import LocalRun
    from gpuproof.backends.sagemaker.run import SageMakerRun


@overload
def run(
    job: Job,
    on: Literal["local"] = "local",
    *,
    wait: bool = True,
    logs: BinaryIO | None = None,
    python: str | None = None,
    fresh: bool = False,
) -> LocalRun: ...
@overload
def run(
    job: Job,
    on: Literal["sagemaker"],
    *,
    wait: bool = True,
    logs: BinaryIO | None = None,
    python: None = None,
    fresh: bool = False,
) -> SageMakerRun: ...
def run(
    job: Job,
    on: str = "local",
    *,
    wait: bool = True,
    logs: BinaryIO | None = None,
    python: str | None = None,
    fresh: bool = False,
) -> Any:
    """Run a job.

    Args:
        job: a `TrainingJob` or a `ProcessingJob`; relative paths are relative to the working directory.
        on: the backend; `local` is this machine, `sagemaker` the account and region of the AWS configuration.
        wait: return when the run has ended and results are in the local folders that the job names; otherwise return
            when the run has been submitted.
        logs: receives the script's output while waiting; standard output if not given.
        python: the script's interpreter on this machine; the current one if not given.
        fresh: start without an earlier run's checkpoints.

    Returns:
        The run: `record.status`, `record.outcome`, `verdict`, `artifacts()`, `pull(folder)`.

    Raises:
        GPUproofError: the job cannot run on this backend.
    """
    backend_class = load_backend(on)
    flags = {"python": python}
    reject_foreign_flags(on, flags)
    resolved = resolve_paths(job, Path.cwd())
    backend, progress = backend_class.open(region=resolved.resources.region), _StderrNotes()
    plan = backend.plan(resolved, PlanOptions(fresh=fresh, flags=flags))
    if backend.is_remote:
        # What will be created and what it may cost has to be known before.
        for warning in plan.warnings:
            progress.report("note", warning)
    plan = backend.prepare(plan, progress)
    submitted = backend.submit(plan, progress)
    if not wait:
        return next(submitted)
    last: Run | None = None
    for last in submitted:
        _write_output(last, logs or sys.stdout.buffer)
    assert last is not None
    last.deliver(plan.job)
    return last


class _StderrNotes(SilentProgress):
    """Prints notes to standard error."""

    def report(self, label: str, text: str) -> None:
        if label == "note":
            print(f"gpuproof: {text}", file=sys.stderr)


def _write_output(run: Run, sink: BinaryIO) -> None:
    try:
        for event in run.follow():
            if isinstance(event, Output):
                sink.write(event.content)
                sink.flush()
    except KeyboardInterrupt:
        run.stop()
        run.wait()
        raise
