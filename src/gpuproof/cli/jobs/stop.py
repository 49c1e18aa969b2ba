"""Stop a run: SIGTERM to its script, SIGKILL two minutes later. Its artifacts and verdict are kept.

--now has no effect on SageMaker, which always allows two minutes. On EC2 it terminates the instances: what was not
uploaded is lost.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import (
    RUN_HELP,
    add_backend_flags,
    add_command,
    add_format_flag,
    list_runs,
    resolve_run,
)
from gpuproof.errors import ExitCode, GPUproofError, UsageError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof stop` to the command line."""
    parser = add_command(commands, "stop", "stop a run", __doc__)
    parser.add_argument("run_names", nargs="*", metavar="RUN", help=RUN_HELP.partition(" (")[0])
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
    if arguments.all == bool(arguments.run_names):
        raise UsageError("Name the runs to stop, or use --all.", remedy="gpuproof stop RUN")
    if arguments.all:
        found = list_runs(arguments, has_ended=False)
    else:
        found = [resolve_run(arguments, name) for name in arguments.run_names]
    problems: list[GPUproofError] = []
    stopped: list[Run] = []
    for one in found:
        # An error must not keep the other runs running, and billed.
        try:
            one.stop(at_once=arguments.now)
        except GPUproofError as error:
            problems.append(error)
        else:
            stopped.append(one)
    statuses: list[dict[str, str]] = []
    for one in stopped:
        record = one.record if arguments.no_wait else one.wait()
        statuses.append({"id": record.id, "status": record.status})
        if arguments.format == "text":
            print(f"{record.id}: {record.status}", flush=True)
    if arguments.format == "json":
        print(json.dumps({"version": 1, "runs": statuses}, indent=2))
    elif arguments.all and not found:
        print("No runs are in progress.")
    for problem in problems[:-1]:
        print(f"gpuproof: {problem}", file=sys.stderr)
    if problems:
        raise problems[-1]
    return ExitCode.OK
