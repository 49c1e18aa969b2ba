"""Stop a run: SIGTERM to its script, SIGKILL two minutes later. Its artifacts and verdict are kept.

An instance on EC2 that has reported nothing, and reports nothing for two more minutes, is terminated.

--now has no effect on SageMaker, which always allows two minutes. On EC2 it terminates the instances: what was not
uploaded is lost.

A batch transform job of `gpuproof transform --detach` is stopped by its full name; the model and the files that were created for it
are deleted, also when it has ended.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import (
    RUN_HELP,
    add_backend_flags,
    add_command,
    add_format_flag,
    list_runs,
    resolve_run,
)
from gpuproof.errors import ExitCode, GPUproofError, RunNotFound, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.backends.record import RunRecord
    from gpuproof.backends.sagemaker.transform.created import CreatedForJob
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof stop` to the command line."""
    parser = add_command(commands, "stop", "stop a run", __doc__)
    parser.add_argument(
        "run_names",
        nargs="*",
        metavar="RUN",
        help=f"{RUN_HELP.partition(' (')[0]}; or a batch transform job's full name",
    )
    parser.add_argument(
        "--all", action="store_true", help="stop all runs of the backend that are in progress"
    )
    parser.add_argument(
        "--now",
        action="store_true",
        help="SIGKILL at once, without the two minutes of grace; on EC2, terminate the instances",
    )
    parser.add_argument("--no-wait", action="store_true", help="return before the runs have ended")
    add_backend_flags(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof stop`."""
    from gpuproof.backends.interrupts import sigterm_interrupts  # not needed for --help

    if arguments.all == bool(arguments.run_names):
        raise UsageError("Name the runs to stop, or use --all.", remedy="gpuproof stop RUN")
    runs, transforms = _find(arguments)
    statuses: list[dict[str, str]] = []
    problems: list[GPUproofError] = []
    stopped: list[Run] = []
    for found in runs:
        # An error must not keep the other runs running, and billed.
        try:
            found.stop(at_once=arguments.now)
        except GPUproofError as error:
            problems.append(error)
        else:
            stopped.append(found)
    with sigterm_interrupts():
        interrupted = _stop_transforms(arguments, transforms, statuses, problems)
    for found in stopped:
        record = found.record if arguments.no_wait or interrupted else found.wait()
        statuses.append({"id": record.id, "status": record.status})
        if arguments.format == "text":
            print(f"{record.id}: {_ending(found, record)}", flush=True)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "runs": statuses}, indent=2))
    elif arguments.all and not runs:
        print("No runs are in progress.")
    if interrupted:
        return ExitCode.INTERRUPTED
    for problem in problems[:-1]:
        print(f"gpuproof: {problem}", file=sys.stderr)
    if problems:
        raise problems[-1]
    return ExitCode.OK


def _ending(run: Run, record: RunRecord) -> str:
    """How a run has ended, and why if its instances did not get to the script: GPUproof may have terminated them."""
    why = record.reason if run.is_remote and record.started is None else None
    return f"{record.status_text}: {why}" if why else record.status_text


def _find(arguments: argparse.Namespace) -> tuple[list[Run], list[CreatedForJob]]:
    """The runs and the batch transform jobs to stop."""
    if arguments.all:
        return list_runs(arguments, has_ended=False), []
    runs: list[Run] = []
    transforms: list[CreatedForJob] = []
    for name in arguments.run_names:
        try:
            runs.append(resolve_run(arguments, name))
        except RunNotFound as error:
            found = _find_transform(arguments, name)
            if found is None:
                raise error from None
            transforms.append(found)
    return runs, transforms


def _find_transform(arguments: argparse.Namespace, name: str) -> CreatedForJob | None:
    """The batch transform job of that name; None if there is none, or it cannot be looked up, as without an AWS account."""
    from gpuproof.backends.registry import searched_backends

    if all(backend.name != "sagemaker" for backend in searched_backends(arguments.on, arguments.region)):
        return None
    from gpuproof.backends.aws import Aws
    from gpuproof.backends.sagemaker.transform.detached import find_created

    try:
        return find_created(Aws(region=arguments.region), name, partial(print, file=sys.stderr))
    except GPUproofError:
        return None  # the error about the run says whether AWS can be reached


def _stop_transforms(
    arguments: argparse.Namespace,
    jobs: Sequence[CreatedForJob],
    statuses: list[dict[str, str]],
    problems: list[GPUproofError],
) -> bool:
    """Stop batch transform jobs, and delete what was created for them; whether an interrupt ended a wait."""
    interrupted = False
    for job in jobs:
        failed = job.stop(wait=not arguments.no_wait and not interrupted)
        interrupted |= job.interrupted
        problems += failed
        if failed:
            continue
        status = job.status()
        statuses.append({"id": job.name, "status": status})
        if arguments.format == "text":
            print(f"{job.name}: {status}; what was created for it is deleted", flush=True)
    return interrupted
