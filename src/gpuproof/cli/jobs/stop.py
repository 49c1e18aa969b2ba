"""Stop a run: SIGTERM to its script, SIGKILL two minutes later. Its artifacts and verdict are kept.

--now has no effect on SageMaker, which always allows two minutes.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import RUN_HELP, add_backend_flags, add_command, resolve_run
from gpuproof.errors import ExitCode, GPUproofError

if TYPE_CHECKING:
    from gpuproof.backends.base import Run
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof stop` to the command line."""
    parser = add_command(commands, "stop", "stop a run", __doc__)
    parser.add_argument("run_names", nargs="+", metavar="RUN", help=RUN_HELP.partition(" (")[0])
    parser.add_argument(
        "--now", action="store_true", help="SIGKILL at once, without the two minutes of grace"
    )
    parser.add_argument("--no-wait", action="store_true", help="return before the runs have ended")
    add_backend_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof stop`."""
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
    for one in stopped:
        record = one.record if arguments.no_wait else one.wait()
        print(f"{record.id}: {record.status}", flush=True)
    for problem in problems[:-1]:
        print(f"gpuproof: {problem}", file=sys.stderr)
    if problems:
        raise problems[-1]
    return ExitCode.OK
