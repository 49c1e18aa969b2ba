"""Remove runs that have ended: folder, logs, artifacts and checkpoints.

For runs on SageMaker, this removes their files in the bucket. Their checkpoints are kept, since other runs continue from
them; SageMaker keeps its record of the job.
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
    parser.add_argument("--all", action="store_true", help="remove all runs of the backend that have ended")
    add_backend_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof rm`."""
    if arguments.all == bool(arguments.run_names):
        raise UsageError("Name the runs to remove, or use --all.", remedy="gpuproof rm RUN")
    found = _all_ended(arguments) if arguments.all else _named(arguments)
    for run in found:
        print(f"{run.id}: {run.remove()}", flush=True)
    return ExitCode.OK


def _all_ended(arguments: argparse.Namespace) -> list[Run]:
    """The runs of one backend that have ended: remote ones only if the user names the backend or a region."""
    from gpuproof.backends.registry import default_backend, load_backend, searched_backends

    if arguments.on is None and arguments.region is not None:
        backend = searched_backends(region=arguments.region)[0]
    else:
        backend = load_backend(arguments.on or default_backend())
    runs = backend.open(region=arguments.region).runs()
    ended = [runs.run(record) for record in list(runs.records()) if record.has_ended]
    if not ended:
        print(f"There are no runs {backend.location} that have ended.")
    return ended


def _named(arguments: argparse.Namespace) -> list[Run]:
    found = list(
        {run.id: run for run in (resolve_run(arguments, name) for name in arguments.run_names)}.values()
    )
    running = next((run for run in found if not run.record.has_ended), None)
    if running is not None:
        raise UsageError(
            f"{running.id} is still running. Nothing was removed.",
            remedy=f"gpuproof stop {running.cli_name}",
        )
    return found
