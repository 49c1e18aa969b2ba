"""Remove runs that have ended: folder, logs, artifacts and checkpoints.

For runs on SageMaker and EC2, this removes their files in the bucket. Their checkpoints are kept, since other runs
continue from them; SageMaker keeps its record of the job.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import (
    RUN_HELP,
    add_backend_flags,
    add_command,
    add_format_flag,
    list_runs,
    resolve_run,
)
from gpuproof.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.backends.record import RunRecord
    from gpuproof.cli.arguments import Subparsers
    from gpuproof.units import Duration


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof rm` to the command line."""
    parser = add_command(commands, "rm", "remove runs that have ended", __doc__)
    parser.add_argument("run_names", nargs="*", metavar="RUN", help=RUN_HELP.partition(" (")[0])
    parser.add_argument("--all", action="store_true", help="remove all runs of the backend that have ended")
    parser.add_argument(
        "--older-than",
        metavar="AGE",
        type=_age,
        help="remove all runs that ended longer ago than this, such as 7d",
    )
    add_backend_flags(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof rm`."""
    selects_all = arguments.all or arguments.older_than is not None
    if selects_all == bool(arguments.run_names):
        raise UsageError("Name the runs to remove, or use --all or --older-than.", remedy="gpuproof rm RUN")
    found = _all_ended(arguments) if selects_all else _named(arguments)
    removed: list[dict[str, str]] = []
    for run in found:
        removed.append({"id": run.id, "result": run.remove()})
        if arguments.format == "text":
            print(f"{run.id}: {removed[-1]['result']}", flush=True)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "runs": removed}, indent=2))
    elif not found:
        age = f" more than {arguments.older_than} ago" if arguments.older_than else ""
        print(f"No runs have ended{age}.")
    return ExitCode.OK


def _all_ended(arguments: argparse.Namespace) -> list[Run]:
    """The runs that have ended, or only those that ended longer ago than --older-than."""
    before = None
    if arguments.older_than is not None:
        before = time.time() - arguments.older_than.seconds
    ended = list_runs(arguments, has_ended=True)
    return [run for run in ended if before is None or _ended_at(run.record) < before]


def _ended_at(record: RunRecord) -> float:
    return record.created + (record.seconds(time.time()) or 0.0)


def _age(text: str) -> Duration:
    """`7d`; raises UnitError."""
    from gpuproof.units import Duration

    return Duration.parse(text)


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
