"""Print the output of a run's script; with -f, until the run has ended.

With several hosts, each line starts with its host's name.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_run_argument, resolve_run
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof logs` to the command line."""
    parser = add_command(commands, "logs", "print the output of a run's script", __doc__)
    add_run_argument(parser)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="follow until the run has ended, then print its verdict"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof logs`."""
    found = resolve_run(arguments, arguments.run_name)
    if arguments.follow:
        from gpuproof.cli.follow import follow_run
        from gpuproof.terminal.console import Console

        return follow_run(found, Console(), stop_on_interrupt=False)
    if found.write_log(sys.stdout.buffer) == 0 and (record := found.record).has_ended:
        print(f"gpuproof: {record.id} has no output: {record.reason or record.status}", file=sys.stderr)
    return ExitCode.OK
