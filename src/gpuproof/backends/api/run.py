"""Runs a job from Python: `gpuproof.run(job, on="local")`, or on `"sagemaker"` or `"ec2"`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

from gpuproof.backends.api.output import Logs, RunOutput
from gpuproof.backends.base import Backend, Plan, PlanOptions, Run
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.registry import load_backend, reject_foreign_flags
from gpuproof.jobs.models.script_jobs import Job

if TYPE_CHECKING:
    from gpuproof.backends.ec2.plan import EC2Plan
    from gpuproof.backends.ec2.run import EC2Run
    from gpuproof.backends.local.plan import LocalPlan
    from gpuproof.backends.local.run import LocalRun
    from gpuproof.backends.sagemaker.plan import SageMakerPlan
    from gpuproof.backends.sagemaker.run import SageMakerRun
    from gpuproof.jobs.script_job import AnyJob


class RunObserver(Protocol):
    """Learns of the runs that are submitted."""

    def submitted(self, job: AnyJob, run: Run) -> None:
        """A run was submitted."""
        ...

    def ended(self, run: Run) -> None:
        """A run that was waited for has ended."""
        ...


@overload
def run(
    job: Job,
    on: Literal["local"] = "local",
    *,
    wait: bool = True,
    dry_run: Literal[False] = False,
    logs: Logs | None = None,
    region: str | None = None,
    profile: str | None = None,
    python: str | None = None,
    fresh: bool = False,
) -> LocalRun: ...
@overload
def run(
    job: Job,
    on: Literal["local"] = "local",
    *,
    dry_run: Literal[True],
    region: str | None = None,
    profile: str | None = None,
    python: str | None = None,
    fresh: bool = False,
) -> LocalPlan: ...
@overload
def run(
    job: Job,
    on: Literal["sagemaker"],
    *,
    wait: bool = True,
    dry_run: Literal[False] = False,
    logs: Logs | None = None,
    region: str | None = None,
    profile: str | None = None,
    python: None = None,
    fresh: bool = False,
) -> SageMakerRun: ...
@overload
def run(
    job: Job,
    on: Literal["sagemaker"],
    *,
    dry_run: Literal[True],
    region: str | None = None,
    profile: str | None = None,
    python: None = None,
    fresh: bool = False,
) -> SageMakerPlan: ...
@overload
def run(
    job: Job,
    on: Literal["ec2"],
    *,
    wait: bool = True,
    dry_run: Literal[False] = False,
    logs: Logs | None = None,
    region: str | None = None,
    profile: str | None = None,
    python: None = None,
    fresh: bool = False,
) -> EC2Run: ...
@overload
def run(
    job: Job,
    on: Literal["ec2"],
    *,
    dry_run: Literal[True],
    region: str | None = None,
    profile: str | None = None,
    python: None = None,
    fresh: bool = False,
) -> EC2Plan: ...
def run(
    job: Job,
    on: str = "local",
    *,
    wait: bool = True,
    dry_run: bool = False,
    logs: Logs | None = None,
    region: str | None = None,
    profile: str | None = None,
    python: str | None = None,
    fresh: bool = False,
) -> Any:
    """Run a job.

    While it waits, Ctrl-C, the stop button of a notebook and SIGTERM stop the run before they are passed on.

    Args:
        job: a `TrainingJob` or a `ProcessingJob`; relative paths are relative to the working directory.
        on: the backend; `local` is this machine; `sagemaker` and `ec2` use the account and region of the AWS configuration.
        wait: return when the run has ended and results are in the local folders that the job names; otherwise return
            when the run has been submitted.
        dry_run: create nothing, and return the plan: `print(plan)`, `plan.files()`, `plan.calls()`.
        logs: receives the script's output while waiting; standard output if not given.
        region: the AWS region; that of the job, or of the AWS configuration, if not given.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.
        python: the script's interpreter on this machine; the current one if not given.
        fresh: start without an earlier run's checkpoints.

    Returns:
        The run: `record.status`, `record.outcome`, `verdict`, `artifacts()`, `pull(folder)`. A notebook shows it as a
        table.

    Raises:
        GPUproofError: the job cannot run on this backend.
    """
    return run_observed(
        None,
        job,
        on,
        wait=wait,
        dry_run=dry_run,
        logs=logs,
        region=region,
        profile=profile,
        python=python,
        fresh=fresh,
    )


def run_observed(
    observer: RunObserver | None,
    job: Job,
    on: str = "local",
    *,
    wait: bool = True,
    dry_run: bool = False,
    logs: Logs | None = None,
    region: str | None = None,
    profile: str | None = None,
    python: str | None = None,
    fresh: bool = False,
) -> Any:
    """Run a job as `run` does, and tell an observer.

    Raises:
        GPUproofError: the job cannot run on this backend.
    """
    backend_class = load_backend(on)
    flags = {"python": python}
    reject_foreign_flags(on, flags)
    resolved = _in_region(job, region).with_absolute_paths(Path.cwd())
    output = RunOutput(logs)
    backend = backend_class.open(region=resolved.resources.region, profile=profile, notify=output.step)
    plan = backend.plan(resolved, PlanOptions(fresh=fresh, flags=flags))
    if dry_run:
        return plan
    if backend.is_remote:
        # What will be created and what it may cost has to be known before.
        for warning in plan.warnings:
            output.report("note", warning)
    with sigterm_interrupts():
        try:
            return _submit(backend, plan, output, observer, wait=wait)
        finally:
            output.release_interrupt()


def _submit(
    backend: Backend[Any], plan: Plan, output: RunOutput, observer: RunObserver | None, *, wait: bool
) -> Run:
    plan = backend.prepare(plan, output)
    last: Run | None = None
    for current in backend.submit(plan, output):
        last = current
        if observer is not None:
            observer.submitted(plan.job, last)
        if not wait:
            return last
        _follow(last, output)
        if observer is not None:
            observer.ended(last)
    assert last is not None
    last.deliver(plan.job)
    return last


def _follow(run: Run, output: RunOutput) -> None:
    try:
        output.release_interrupt()
        for event in run.follow(live=output.live):
            output.show(event)
    except KeyboardInterrupt:
        run.stop()
        try:
            output.show(run.wait())
        except KeyboardInterrupt:
            if run.can_stop_at_once:
                run.stop(at_once=True)
                output.show(run.wait())
        raise


def _in_region(job: Job, region: str | None) -> Job:
    """The job in another region; validates the region."""
    if region is None:
        return job
    resources = {**dict(job.resources), "region": region}
    return type(job).model_validate({**dict(job), "resources": resources})
