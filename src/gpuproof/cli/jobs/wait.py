"""Wait until a run has ended, and exit with the same code as `gpuproof run`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpuproof.cli.arguments import add_command, add_format_flag, add_run_argument, resolve_run

if TYPE_CHECKING:
    from gpuproof.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    """Add `gpuproof wait` to the command line."""
    parser = add_command(commands, "wait", "wait until a run has ended", __doc__)
    add_run_argument(parser)
    add_format_flag(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Entry point of `gpuproof wait`."""
    found = resolve_run(arguments, arguments.run_name)
    record = found.wait()
    if arguments.format == "json":
        from gpuproof.cli.follow import final_document

        print(final_document(found))
    else:
        from gpuproof.backends.outcome import FLAG, outcome_text

        print(f"{record.id}: {record.status}" + (f": {record.reason}" if record.reason else ""))
        if (text := outcome_text(record, found.verdict, FLAG)) is not None:
            print(text)
    return record.outcome
