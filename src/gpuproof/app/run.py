"""Runs a job: `gpuproof run` (`run_job`), and `gpuproof.run` in Python."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

from gpuproof.backends.base import PlanOptions
from gpuproof.backends.interrupts import sigterm_interrupts
from gpuproof.backends.registry import (
    CHEAPEST,
    compared_backends,
    default_backend,
    load_backend,
    reject_foreign_flags,
)
from gpuproof.errors import ExitCode
from gpuproof.planning.history.planned_runs import PlannedRuns
from gpuproof.planning.history.store import HistoryStore

if TYPE_CHECKING:
    from gpuproof.agent.job import PlannedFlops
    from gpuproof.app.python_reporter import Logs
    from gpuproof.app.reporter import Reporter
    from gpuproof.backends.base import Backend, Plan, Run
    from gpuproof.backends.cheapest.choose import Choice
    from gpuproof.backends.ec2.plan import EC2Plan
    from gpuproof.backends.ec2.run import EC2Run
    from gpuproof.backends.local.plan import LocalPlan
    from gpuproof.backends.local.run import LocalRun
    from gpuproof.backends.sagemaker.plan import SageMakerPlan
    from gpuproof.backends.sagemaker.run import SageMakerRun
    from gpuproof.jobs.models.script_jobs import Job
    from gpuproof.jobs.script_job import AnyJob


@dataclass(frozen=True)
class RunOptions:
    """How a job runs.

    Args:
        on: the backend; `cheapest` compares those in the AWS account.
        check: check the job before it runs, and reject one with errors.
        fresh: start without an earlier run's checkpoints.
        wait: follow the run until it has ended, and copy its results to the folders that the job names.
        dry_run: plan only; create nothing.
        max_cost: reject a job that may cost more than this, in USD; None for any.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if None.
        flags: values of the backends' own flags, by `Flag.destination`.
        skip_check_with: how the user skips the checks, for the error message.

    Raises:
        UsageError: a flag belongs to another backend.
    """

    on: str = field(default_factory=default_backend)
    check: bool = True
    fresh: bool = False
    wait: bool = True
    dry_run: bool = False
    profile: str | None = None
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    skip_check_with: str = "check=False"
    max_cost: float | None = None

    def __post_init__(self) -> None:
        reject_foreign_flags(self.on, self.flags)


@dataclass(frozen=True)
class RunResult:
    """What became of a job.

    Args:
        plan: what was decided.
        choice: the backends that were compared, with `cheapest`.
        run: the last run; None for a plan that was not submitted.
        exit_code: of the last run that was followed, or OK.
    """

    plan: Plan
    choice: Choice | None = None
    run: Run | None = None
    exit_code: int = ExitCode.OK


def run_job(job: AnyJob, options: RunOptions, reporter: Reporter) -> RunResult:
    """Check, plan and submit a job, follow its runs, and deliver the results.

    Args:
        job: with absolute paths.

    Raises:
        ChecksFailed: the checks found errors.
        CostLimitExceeded: it may cost more than `max_cost`.
        NowhereToRun: none of the compared backends can run it.
        NoCapacity: no instance type was available.
        GPUproofError: it cannot run on the backend.
    """
    with sigterm_interrupts():
        backend, plan, choice = _plan(job, options, reporter)
        if options.max_cost is not None:
            from gpuproof.app.preflight import check_cost  # most jobs have no limit

            check_cost(job.name, plan.max_usd, options.max_cost, _CHEAPER)
        if options.dry_run:
            return RunResult(plan, choice)
        if choice is not None:
            reporter.chosen(choice)
        try:
            return _submit(backend, plan, choice, options, reporter)
        finally:
            reporter.end_progress()
            reporter.release_interrupt()


_CHEAPER = "A shorter max_duration lowers the limit; `gpuproof plan` estimates the likely cost, and `gpuproof gpus` lists cheaper types."


def _plan(job: AnyJob, options: RunOptions, reporter: Reporter) -> tuple[Backend[Any], Plan, Choice | None]:
    """Check and plan a job. On this machine, the plan comes first: it finds out what the job cannot run with."""
    if options.on == CHEAPEST:
        _check(job, options, reporter, is_remote=True)
        choice = _choose(job, options, reporter)
        return choice.backend, choice.plan, choice
    backend = load_backend(options.on).open(region=job.resources.region, profile=options.profile)
    flags = {flag.destination: options.flags.get(flag.destination, flag.default) for flag in backend.flags}
    if backend.is_remote:
        # Findings come before the requests that planning makes.
        _check(job, options, reporter, is_remote=True)
    plan = backend.plan(
        job,
        PlanOptions(
            fresh=options.fresh,
            flags=flags,
            dry_run=options.dry_run,
            wait=options.wait,
            planned_flops=_planned_flops(job, options),
        ),
    )
    if not backend.is_remote:
        _check(job, options, reporter, is_remote=False, python=flags.get("python"))
    return backend, plan, None


def _planned_flops(job: AnyJob, options: RunOptions) -> PlannedFlops | None:
    """The FLOPs of a step, if the script was planned; a dry run creates nothing, not even the folder of the plans."""
    return None if options.dry_run else PlannedRuns().flops(job)


def _check(
    job: AnyJob, options: RunOptions, reporter: Reporter, *, is_remote: bool, python: str | None = None
) -> None:
    if options.check:
        from gpuproof.app.preflight import check_before_running  # imports the linter

        check_before_running(
            job, reporter, is_remote=is_remote, python=python, skip_with=options.skip_check_with
        )


def _choose(job: AnyJob, options: RunOptions, reporter: Reporter) -> Choice:
    from gpuproof.app.instance_choice import predict
    from gpuproof.backends.cheapest.choose import choose_backend

    try:
        return choose_backend(
            compared_backends(),
            job,
            fresh=options.fresh,
            dry_run=options.dry_run,
            wait=options.wait,
            profile=options.profile,
            notify=reporter.step,
            predict=lambda types: predict(job, types, reporter),
            planned_flops=_planned_flops(job, options),
        )
    finally:
        reporter.end_progress()


def _submit(
    backend: Backend[Any], plan: Plan, choice: Choice | None, options: RunOptions, reporter: Reporter
) -> RunResult:
    last: Run | None = None
    code: int = ExitCode.FAILED
    try:
        plan = backend.prepare(plan, reporter)
        reporter.prepared(plan, is_remote=backend.is_remote)
        for current in backend.submit(plan, reporter):
            last = current
            reporter.end_progress()
            PlannedRuns().submitted(plan.job, current)
            if not options.wait:
                reporter.detached(current, plan)
                return RunResult(plan, choice, current)
            code = reporter.follow(current, plan)
            if code == ExitCode.INTERRUPTED:
                break
    except KeyboardInterrupt:
        # Perhaps no run was being followed.
        if last is not None and options.wait:
            last.stop()
        raise
    assert last is not None
    if last.record.has_ended:
        _deliver(plan.job, last, reporter)
        _compare_with_plan(last, reporter)
    return RunResult(plan, choice, last, code)


def _deliver(job: AnyJob, run: Run, reporter: Reporter) -> None:
    """Copy the results to the local folders that the job names."""
    try:
        reporter.delivered(
            run.deliver(
                job, progress=lambda what, done, total: reporter.transfer(f"Downloading {what}", done, total)
            )
        )
    finally:
        reporter.end_progress()


def _compare_with_plan(run: Run, reporter: Reporter) -> None:
    """Compare a run that has ended with what `gpuproof plan` estimated of its script, if it was planned."""
    PlannedRuns().ended(run)
    store = HistoryStore()
    if not store.path.exists():
        return
    from gpuproof.planning.history.text import comparison_text  # most runs were not planned

    with suppress(OSError):
        for entry in store.read().comparisons:
            if entry["run"] == run.id:
                reporter.report("plan", comparison_text(entry))


class Options(TypedDict, total=False):
    """Keyword arguments of `run` for all backends."""

    check: bool
    region: str | None
    profile: str | None
    fresh: bool
    max_cost: float | None


class LocalOptions(Options, total=False):
    """Keyword arguments of `run` for this machine."""

    python: str | None


class Waiting(TypedDict, total=False):
    """Keyword arguments of `run` unless it is a dry run."""

    wait: bool
    logs: Logs | None
    dry_run: Literal[False]


class RunKeywords(Options, Waiting, total=False):
    """Keyword arguments of `run` in the AWS account."""


class LocalRunKeywords(LocalOptions, Waiting, total=False):
    """Keyword arguments of `run` on this machine."""


@overload
def run(
    job: Job, on: Literal["local"] = "local", *, dry_run: Literal[True], **keywords: Unpack[LocalOptions]
) -> LocalPlan: ...
@overload
def run(job: Job, on: Literal["local"] = "local", **keywords: Unpack[LocalRunKeywords]) -> LocalRun: ...
@overload
def run(
    job: Job, on: Literal["sagemaker"], *, dry_run: Literal[True], **keywords: Unpack[Options]
) -> SageMakerPlan: ...
@overload
def run(job: Job, on: Literal["sagemaker"], **keywords: Unpack[RunKeywords]) -> SageMakerRun: ...
@overload
def run(job: Job, on: Literal["ec2"], *, dry_run: Literal[True], **keywords: Unpack[Options]) -> EC2Plan: ...
@overload
def run(job: Job, on: Literal["ec2"], **keywords: Unpack[RunKeywords]) -> EC2Run: ...
@overload
def run(job: Job, on: str, *, dry_run: Literal[True], **keywords: Unpack[LocalOptions]) -> Plan: ...
@overload
def run(job: Job, on: str, **keywords: Unpack[LocalRunKeywords]) -> Run: ...
def run(
    job: Job,
    on: str = "local",
    *,
    check: bool = True,
    wait: bool = True,
    dry_run: bool = False,
    logs: Logs | None = None,
    region: str | None = None,
    profile: str | None = None,
    python: str | None = None,
    fresh: bool = False,
    max_cost: float | None = None,
) -> Any:
    """Run a job, as `gpuproof run` does.

    While it waits, Ctrl-C, the stop button of a notebook and SIGTERM stop the run before they are passed on.

    Args:
        job: a `TrainingJob` or a `ProcessingJob`; relative paths are relative to the working directory.
        on: the backend; `local` is this machine; `sagemaker` and `ec2` use the account and region of the AWS configuration;
            `cheapest` compares the prices of those two.
        check: check the job first, as `gpuproof check` does: warnings are printed, and errors stop it.
        wait: return when the run has ended and results are in the local folders that the job names; otherwise return
            when the run has been submitted.
        dry_run: create nothing, and return the plan: `print(plan)`, `plan.files()`, `plan.calls()`.
        logs: receives the script's output while waiting; standard output if not given.
        region: the AWS region; that of the job, or of the AWS configuration, if not given.
        profile: the AWS profile; `AWS_PROFILE`, or the default profile, if not given.
        python: the script's interpreter on this machine; the current one if not given.
        fresh: start without an earlier run's checkpoints.
        max_cost: reject a job whose highest possible cost in USD, by `max_duration` and list prices, is above this.

    Returns:
        The run: `record.status`, `record.outcome`, `verdict`, `artifacts()`, `pull(folder)`. A notebook shows it as a
        table.

    Raises:
        ChecksFailed: the checks found errors, which are its `findings`.
        CostLimitExceeded: it may cost more than `max_cost`.
        GPUproofError: the job cannot run on this backend.
    """
    from gpuproof.app.python_reporter import PythonReporter

    options = RunOptions(on, check, fresh, wait, dry_run, profile, {"python": python}, max_cost=max_cost)
    resolved = _in_region(job, region).with_absolute_paths(Path.cwd())
    result = run_job(resolved, options, PythonReporter(logs))
    return result.plan if result.run is None else result.run


def _in_region(job: Job, region: str | None) -> Job:
    """The job in another region; validates the region."""
    if region is None:
        return job
    resources = {**dict(job.resources), "region": region}
    return type(job).model_validate({**dict(job), "resources": resources})
