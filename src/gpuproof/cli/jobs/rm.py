"""Remove runs that have ended: folder, logs, artifacts and checkpoints.

Of a run on SageMaker, what it alone keeps in the bucket is removed. Its checkpoints stay, for other runs go on from
them, and so does SageMaker's own record of the job.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import RUN_HELP, add_backend_flags, add_command, resolve_run
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof rm` to the command line."""
    parser = add_command(commands, "rm", "remove runs that have ended", __doc__)
    parser.add_argument("run_names", nargs="*", metavar="RUN", help=RUN_HELP.partition(" (")[0])
    parser.add_argument("--all", action="store_true", help="all runs of the place that have ended")
    add_backend_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof rm`."""
    if arguments.all == bool(arguments.run_names):
        raise UsageError("Name the runs to remove, or say --all.", remedy="gpuproof rm RUN")
    found = _all_ended(arguments) if arguments.all else _named(arguments)
    if not found:
        place = "on SageMaker" if _place_of_all(arguments) == "sagemaker" else "on this machine"
        print(f"There are no runs {place} that have ended.")
    for run in found:
        print(f"{run.id}: {run.remove()}", flush=True)
    return ExitCode.OK


def _all_ended(arguments: argparse.Namespace) -> list[Run]:
    """Of one place alone: what is on AWS goes only if a person says so."""
    from gpuproof.backends.registry import runs_in

    runs = runs_in(_place_of_all(arguments), arguments.region)
    return [runs.run(record) for record in list(runs.records()) if record.has_ended]


def _place_of_all(arguments: argparse.Namespace) -> str:
    return arguments.on or ("sagemaker" if arguments.region else "local")


def _named(arguments: argparse.Namespace) -> list[Run]:
    found = list(
        {run.id: run for run in (resolve_run(arguments, name) for name in arguments.run_names)}.values()
    )
    running = next((run for run in found if not run.record.has_ended), None)
    if running is not None:
        raise UsageError(
            f"{running.id} still runs. Nothing was removed.", remedy=f"gpuproof stop {running.typed}"
        )
    return found
