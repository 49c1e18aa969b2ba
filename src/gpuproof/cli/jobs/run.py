"""Run a job and give a verdict on its GPU use.

TARGET is a script, a gpuproof.yaml or a folder that contains one (default: the gpuproof.yaml of the working directory).
Arguments after `--` are passed to the script.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from gpuproof.backends.registry import (
    BACKENDS,
    CHEAPEST,
    default_backend,
    load_backend,
    reject_foreign_flags,
)
from gpuproof.cli.arguments import add_json_flag
from gpuproof.cli.jobs.run_flags import AUTO, add_backend_flags, add_job_flags, read_job
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.backends.base import Backend, Plan, Run
    from gpuproof.backends.cheapest.choose import Choice
    from gpuproof.backends.record import RunRecord
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.jobs.models.machine import MachineJob
    from gpuproof.jobs.script_job import AnyJob
    from gpuproof.terminal.console import Console


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof run` to the command line."""
    parser = commands.add_parser(
        "run",
        help="run a job and give a verdict on its GPU use",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="gpuproof run [TARGET [NAME]] [flags] [-- SCRIPT ARGUMENTS]",
        epilog="examples:\n  gpuproof run train.py -- --epochs 5\n  gpuproof run\n  gpuproof run jobs/gpuproof.yaml train -p epochs=5\n"
        "  gpuproof run --on sagemaker --gpu A10G:1 --dry-run\n"
        "  gpuproof run train.py --on ec2 --instance-type g5.xlarge\n"
        "  gpuproof run workbench.yaml --on ec2 --jupyter\n"
        "  gpuproof run train.py --on cheapest --gpu A10G:1 --dry-run",
        allow_abbrev=False,
    )
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a script, a gpuproof.yaml or its folder")
    parser.add_argument("job", nargs="?", metavar="NAME", help="the job, if the file defines several")
    add_job_flags(parser)
    how = parser.add_argument_group("how it runs")
    how.add_argument(
        "--on",
        default=default_backend(),
        choices=[*BACKENDS, CHEAPEST],
        help=f"the backend; local is this machine, {CHEAPEST} compares the prices of those on AWS (default: {default_backend()})",
    )
    how.add_argument("--fresh", action="store_true", help="start without an earlier run's checkpoints")
    how.add_argument("--no-check", action="store_true", help="skip `gpuproof check`")
    how.add_argument("--detach", action="store_true", help="return as soon as the run has been submitted")
    how.add_argument("--dry-run", action="store_true", help="show the plan without running anything")
    how.add_argument(
        "--format", default="text", choices=["text", "json"], help="json: results on standard output"
    )
    add_json_flag(how)
    for name in BACKENDS:
        add_backend_flags(parser, load_backend(name))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof run`."""
    from gpuproof.backends.interrupts import sigterm_interrupts

    with sigterm_interrupts():
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    from gpuproof.cli.jobs.cheapest import choose, show_choice
    from gpuproof.cli.jobs.plan_text import show_dry_run
    from gpuproof.terminal.console import Console

    reject_foreign_flags(arguments.on, vars(arguments))
    as_json = arguments.format == "json"
    console = Console(output=sys.stderr.buffer if as_json else None)
    job = _read_job(arguments, console)
    if job.kind == "machine":
        _check_machine(job, arguments)
    if arguments.on == CHEAPEST:
        _check(job, arguments, console, is_remote=True)
        choice = choose(job, console, fresh=arguments.fresh, as_json=as_json)
        backend, plan = choice.backend, choice.plan
    else:
        choice = None
        backend = load_backend(arguments.on).open(region=job.resources.region, notify=console.progress)
        plan = _plan(backend, job, arguments, console)
    if arguments.dry_run:
        show_dry_run(plan, console, as_json=as_json, choice=choice)
        return ExitCode.OK
    if choice is not None:
        show_choice(choice, console)
    return _submit(backend, plan, console, as_json=as_json, detach=arguments.detach, choice=choice)


def _read_job(arguments: argparse.Namespace, console: Console) -> AnyJob:
    """The job; with `--instance-type auto`, with the type that a plan of its script recommends."""
    if arguments.instance_type != AUTO:
        return read_job(arguments)
    from gpuproof.cli.jobs.instance_choice import recommend_type

    arguments.instance_type = None
    found = recommend_type(read_job(arguments), arguments.on, console, python=arguments.python)
    # From here on as if the user had named it.
    arguments.instance_type, arguments.gpu = found, None
    return read_job(arguments)


def _check_machine(job: MachineJob, arguments: argparse.Namespace) -> None:
    """Before an instance is paid for, check that the tunnel to it can be opened from here.

    Raises:
        UsageError: it cannot.
    """
    if (
        job.jupyter
        and arguments.on not in ("local", "sagemaker")
        and not (arguments.detach or arguments.dry_run)
    ):
        from gpuproof.cli.jobs.sessions.programs import require_programs  # most jobs need no session

        require_programs("--jupyter")


def _plan(backend: Backend[Any], job: AnyJob, arguments: argparse.Namespace, console: Console) -> Plan:
    """Check and plan a job on a backend."""
    from gpuproof.backends.base import PlanOptions

    flags = {flag.destination: getattr(arguments, flag.destination) for flag in backend.flags}
    options = PlanOptions(fresh=arguments.fresh, flags=flags)
    if backend.is_remote:
        # Findings come before the requests that planning makes.
        _check(job, arguments, console, is_remote=True)
        return backend.plan(job, options)
    plan = backend.plan(job, options)
    _check(job, arguments, console, is_remote=False, python=flags.get("python"))
    return plan


def _submit(
    backend: Backend[Any],
    plan: Plan,
    console: Console,
    *,
    as_json: bool,
    detach: bool,
    choice: Choice | None = None,
) -> int:
    """Submit a plan and follow its runs; returns the exit code."""
    from gpuproof.backends.errors import NoCapacity
    from gpuproof.cli.jobs.cheapest import with_candidates
    from gpuproof.cli.jobs.plan_comparison import show_comparison
    from gpuproof.cli.jobs.plan_text import ConsoleProgress, no_capacity_document, show_detached
    from gpuproof.planning.history.planned_runs import PlannedRuns

    progress = ConsoleProgress(console)
    code, last = ExitCode.FAILED, None
    try:
        plan = backend.prepare(plan, progress)
        if plan.run_id is not None:
            _introduce(plan.run_id, plan, console)
        for current in backend.submit(plan, progress):
            last = current
            console.end_progress()
            PlannedRuns().submitted(plan.job, current)
            if detach:
                _introduce_run(current, plan, console)
                show_detached(current, plan, console, as_json=as_json, choice=choice)
                return ExitCode.OK
            # Imported here so that a local run's agent starts at the same time.
            from gpuproof.cli.follow import follow_run

            def show_first(current: Run = current) -> None:
                progress.release_interrupt()
                _introduce_run(current, plan, console)

            if plan.job.kind == "machine":
                from gpuproof.cli.jobs.sessions.machine import follow_machine  # most jobs have a script

                code = follow_machine(current, plan, console, first=show_first, end=_show_end)
            else:
                code = follow_run(current, console, first=show_first, end=_show_end)
            if code == ExitCode.INTERRUPTED:
                break
    except NoCapacity as error:
        console.end_progress()
        if as_json:
            print(with_candidates(no_capacity_document(error, last), choice))
        raise
    except KeyboardInterrupt:
        # Interrupted while no run was being followed.
        if last is not None and not detach:
            last.stop()
        raise
    finally:
        console.end_progress()
        progress.release_interrupt()
    assert last is not None
    if plan.job.kind == "machine" and not last.record.has_ended:
        return code
    _deliver(plan.job, last, console)
    show_comparison(last, console)
    if as_json:
        from gpuproof.cli.follow import final_document

        print(with_candidates(final_document(last), choice))
    return code


def _introduce(run_id: str, plan: Plan, console: Console) -> None:
    from gpuproof.cli.jobs.plan_text import show_plan

    console.label("run", run_id)
    show_plan(plan, console)


def _introduce_run(run: Run, plan: Plan, console: Console) -> None:
    """Print the id of a run, unless it was printed before, and the plan if it was not shown before the submission."""
    if plan.run_id is None:
        _introduce(run.id, plan, console)
    elif run.id != plan.run_id:
        console.label("run", run.id)


def _show_end(run: Run, record: RunRecord, console: Console) -> None:
    """Print the end of a run; only its status if it lacked capacity, so that another one may follow."""
    from gpuproof.cli.follow import show_end, show_status

    if run.lacked_capacity:
        show_status(record, console)
    else:
        show_end(run, record, console)


def _deliver(job: AnyJob, run: Run, console: Console) -> None:
    """Copy the results to the local folders that the job names."""
    from gpuproof.util.humanize import format_bytes

    if not run.record.has_ended:
        return

    def progress(what: str, done: int, total: int) -> None:
        console.progress(f"Downloading {what} · {format_bytes(done)} of {format_bytes(total)}")

    try:
        created = run.deliver(job, progress=progress)
    finally:
        console.end_progress()
    for path in created:
        console.label("here", str(path))


def _check(
    job: AnyJob,
    arguments: argparse.Namespace,
    console: Console,
    *,
    is_remote: bool,
    python: str | None = None,
) -> None:
    if not arguments.no_check:
        from gpuproof.cli.jobs.preflight import check_before_running
        from gpuproof.settings import aws_region

        region = job.resources.region or aws_region()
        check_before_running(job, console, region, is_remote=is_remote, python=python)
