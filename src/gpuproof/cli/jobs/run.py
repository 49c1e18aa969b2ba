"""Run a job and give a verdict on its GPU use.

TARGET is a script, a gpuproof.yaml or a folder that contains one (default: the gpuproof.yaml of the working directory).
Arguments after `--` are passed to the script.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.backends.registry import BACKENDS, CHEAPEST, default_backend, load_backend
from gpuproof.cli.arguments import add_json_flag, usd
from gpuproof.cli.help_formatter import HelpFormatter
from gpuproof.cli.jobs.run_flags import AUTO, add_backend_flags, add_job_flags, read_job

if TYPE_CHECKING:
    from gpuproof.app.run import RunOptions
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.cli.jobs.run_reporter import RunReporter
    from gpuproof.jobs.models.machine import MachineJob
    from gpuproof.jobs.script_job import AnyJob


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof run` to the command line."""
    parser = commands.add_parser(
        "run",
        help="run a job and give a verdict on its GPU use",
        description=__doc__,
        formatter_class=HelpFormatter,
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
        "--max-cost",
        type=usd,
        metavar="USD",
        help="do not start a job that may cost more, by its max_duration and list prices",
    )
    how.add_argument(
        "--format", default="text", choices=["text", "json"], help="json: results on standard output"
    )
    add_json_flag(how)
    for name in BACKENDS:
        add_backend_flags(parser, load_backend(name))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof run`."""
    from gpuproof.app.run import RunOptions, run_job
    from gpuproof.backends.interrupts import sigterm_interrupts
    from gpuproof.cli.jobs.run_reporter import RunReporter

    reporter = RunReporter(as_json=arguments.format == "json")
    with sigterm_interrupts():
        options = RunOptions(
            arguments.on,
            check=not arguments.no_check,
            fresh=arguments.fresh,
            wait=not arguments.detach,
            dry_run=arguments.dry_run,
            flags=vars(arguments),
            skip_check_with="--no-check",
            max_cost=arguments.max_cost,
        )
        job = _read_job(arguments, reporter)
        if job.kind == "machine":
            _check_machine(job, options)
        try:
            result = run_job(job, options, reporter)
        except Exception as error:
            reporter.failed(error)
            raise
        return reporter.ended(result)


def _read_job(arguments: argparse.Namespace, reporter: RunReporter) -> AnyJob:
    """The job; with `--instance-type auto`, with the type that a plan of its script recommends."""
    if arguments.instance_type != AUTO:
        return read_job(arguments)
    from gpuproof.app.instance_choice import recommend_type

    arguments.instance_type = None
    found = recommend_type(read_job(arguments), arguments.on, reporter, python=arguments.python)
    # From here on as if the user had named it.
    arguments.instance_type, arguments.gpu = found, None
    return read_job(arguments)


def _check_machine(job: MachineJob, options: RunOptions) -> None:
    """Before an instance is paid for, check that the tunnel to it can be opened from here.

    Raises:
        UsageError: it cannot.
    """
    has_sessions = options.on == CHEAPEST or load_backend(options.on).has_sessions
    if job.jupyter and has_sessions and options.wait and not options.dry_run:
        from gpuproof.cli.jobs.sessions.programs import require_programs  # most jobs need no session

        require_programs("--jupyter")
