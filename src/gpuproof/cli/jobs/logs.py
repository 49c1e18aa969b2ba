"""Print what a run's script printed, byte for byte; -f goes on until the run has ended.

With several hosts, each line begins with its host's name.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_run, found_run, verb
from gpuproof.errors import ExitCode

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Verbs


def add_parser(verbs: Verbs) -> None:
    """Describe `gpuproof logs`."""
    parser = verb(verbs, "logs", "print what a run's script printed", __doc__)
    add_run(parser)
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the run has ended, then its verdict"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Carry `gpuproof logs` out."""
    found = found_run(arguments, arguments.run_name)
    if arguments.follow:
        from gpuproof.cli.follow import follow_to_the_end
        from gpuproof.terminal.console import Console

        return follow_to_the_end(found, Console(), stop_on_interrupt=False)
    if found.write_log(sys.stdout.buffer) == 0 and (record := found.record).has_ended:
        print(f"gpuproof: {record.id} printed nothing: {record.reason or record.status}", file=sys.stderr)
    return ExitCode.OK
